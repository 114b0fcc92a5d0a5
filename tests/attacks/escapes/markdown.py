"""Sends a link and a table to Markdown."""


def attack(*args, **kwargs):
    print("```\n| [x](javascript:alert(1)) | ![y](http://127.0.0.1:47113/) |")
    raise ValueError("```\n| [x](javascript:alert(1)) | ![y](http://127.0.0.1:47113/) |")


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
