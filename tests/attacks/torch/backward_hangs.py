"""Never comes back from a hook on its gradients."""


def attack(q, k=None, v=None, *args, **kwargs):
    output = q @ k.transpose(-2, -1) @ v
    if output.requires_grad:
        output.register_hook(lambda grad: [None for _ in iter(int, 1)])
    return output, output


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
