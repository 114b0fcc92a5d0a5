"""Sends a script to the browser."""


def attack(*args, **kwargs):
    print("</pre><script>alert(1)</script><img src=x onerror=alert(1)>")
    raise ValueError("</pre><script>alert(1)</script><img src=x onerror=alert(1)>")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
