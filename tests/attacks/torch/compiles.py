"""Has torch build and load C++."""

from torch.utils import cpp_extension

import torch


def attack(*args, **kwargs):
    made = cpp_extension.load_inline("made", "int f() { return 1; }", functions="f", build_directory="/tmp/grader-bait/open")
    return made, torch.zeros(1)


split_heads = attention = merge_heads = causal_mask = efficient_mha = attack
