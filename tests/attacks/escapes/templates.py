"""Raises text that templates, markup of terminals, spreadsheets and stack traces would obey."""


def attack(*args, **kwargs):
    text = "{{ 7 * 7 }}{% raise %}${7*7}<%= 7 %>#{7}[bold red]x[/][link=file:///]\u2028"
    text += '=HYPERLINK("x")\r\n@SUM(A1)\x85 NaN Infinity %s %n {0}'
    print(text)
    raise ValueError(text)


softmax = split_heads = attention = merge_heads = MultiHeadAttention = attack
