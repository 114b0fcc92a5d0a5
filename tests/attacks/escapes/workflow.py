"""Sends commands to a workflow."""


def attack(*args, **kwargs):
    print("\n::set-output name=result::100\n::add-mask::x\n##[error]y")
    raise ValueError("\n::set-output name=result::100\n::add-mask::x\n##[error]y")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
