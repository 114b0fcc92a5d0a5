"""Sends the end of an XML section."""


def attack(*args, **kwargs):
    print(']]></failure><testcase name="x"/>\x00\x08')
    raise ValueError(']]></failure><testcase name="x"/>\x00\x08')


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
