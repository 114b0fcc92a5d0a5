"""What common errors of NumPy, torch and Python mean, in a sentence that leads on. Facts of libraries, not of a course."""

from __future__ import annotations

import re

_MEANINGS = [
    (r"view size is not compatible|use \.reshape\(\.\.\.\) instead",
     "view needs the numbers to lie in memory in the order it reads them, and a transpose changes that order: "
     "reshape copies where it must"),
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)",
     r"a product needs equal inner sizes, and \2 is not \3: is a transpose missing, or one too many?"),
    (r"matmul: Input operand 1 has a mismatch in its core dimension.*\(size (\d+) is different from (\d+)\)",
     r"in a @ b the last size of a must equal b's last but one, and \2 is not \1: "
     "is a swap of the last two axes missing, or do a and b stand the wrong way round?"),
    (r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
     r"a batched product needs equal inner sizes, and \2 is not \4: which axis of which of the two is not what you think?"),
    (r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
     r"shapes are lined up from the right, and sizes must be equal or 1: on axis \3 they are \1 and \2. "
     "Is an axis of size 1 missing, or does a transpose move an axis that should stay?"),
    (r"could not be broadcast together with remapped shapes",
     "in a @ b the axes before the last two must be equal or 1: does a transpose move more than the last two?"),
    (r"could not be broadcast together",
     "shapes are lined up from the right, and sizes must be equal or 1: which of them lacks an axis of size 1 (keepdims=True?)"),
    (r"shape '\[.*\]' is invalid for input of size|cannot reshape array of size",
     "a reshape keeps the number of elements: multiply the sizes that you asked for. Are some of them those of another array?"),
    (r"expected scalar type|must have the same dtype|should have the same dtype|expected m1 and m2",
     "the two sides have different dtypes: something was made in the default dtype, where the input's was due"),
    (r"modified by an inplace operation",
     "a value that the gradient needs was overwritten: methods that end in _ and operators such as += write in place"),
    (r"leaf Variable that requires grad|view of a leaf Variable",
     "an input that wants a gradient was written into: make a new tensor instead"),
    (r"[Bb]oolean value of Tensor with more than one value|truth value of an array with more than one element",
     "`if x:` and `not x` ask for one truth, and an array has many: compare with `is None` to see whether there is one at all, "
     "and turn booleans around with `~`"),
    (r"axes don't match array|number of dimensions in the tensor input does not match",
     "transpose wants every axis named once, and how many has this array? To swap two, NumPy has swapaxes and torch transpose"),
    (r"Dimension out of range|is out of bounds for array of dimension",
     "there is no such axis: how many axes does this array have here? Negative numbers count from the end"),
    (r"(not enough|too many) values to unpack \(expected (\d+)",
     r"\2 names stand on the left of the =: how many axes does the shape have here, or how many values come back?"),
    (r"Explicit attn_mask should not be set when is_causal=True",
     "SDPA takes a mask or is_causal, not both: join the two into one mask"),
    (r"attn_mask dtype",
     "SDPA takes a boolean mask, or a float one that it adds to the scores"),
    (r"Can't call numpy\(\) on Tensor that requires grad",
     "a trip through NumPy cuts the gradient: stay with torch's own operations, or, where no gradient is due, use no_grad"),
    (r"does not require grad and does not have a grad_fn",
     "nothing here is tied to an input any more: was it detached, or made anew from numbers?"),
    (r"must be broadcastable|doesn't match the broadcast shape|cannot be broadcast to",
     "an in-place operation can't make its target larger: use the one without _ at its end"),
    (r"cannot import name|No module named",
     "only the exercise files and installed packages can be imported here"),
    (r"got an unexpected keyword argument '(dim|keepdim|axis|keepdims)'",
     "the names are dim and keepdim in torch, axis and keepdims in NumPy"),
    (r"transpose\(\) (takes|missing)",
     "to swap two axes, tell a tensor's transpose which; permute orders all of them"),
    (r"got an unexpected keyword argument|takes \d+ positional argument|missing \d+ required positional argument",
     "keep the parameters of an exercise as they were given: the checks call it with those. What does this function take?"),
    (r"only (0-dimensional|length-1|size-1) arrays can be converted|must be Tensor, not (int|float)",
     "functions of math take one number, those of torch a tensor, those of NumPy either"),
    (r"self must be a matrix|must be a 3D tensor",
     "only two axes fit mm and only three bmm: @ takes any number of axes in front"),
    (r"The expanded size of the tensor",
     "only axes of size 1 can be expanded"),
    (r"(non-iterable |')(builtin_function_or_)?method",
     "a method stands here without its parentheses: it has to be called"),
    (r"^name '\w+' is not defined",
     "nothing has this name here: is it misspelt, not imported, or an attribute, with self. in front?"),
    (r"NoneType",
     "something here is None: a function without a return gives None, and so does an argument that was left out"),
]  # fmt: skip


def meaning(message: str) -> str:
    """What an error message means for the one who caused it; empty when we have nothing to add."""
    for pattern, sentence in _MEANINGS:
        if found := re.search(pattern, message, re.DOTALL):
            sentence = found.expand(sentence) if found.re.groups else sentence
            return sentence[0].upper() + sentence[1:] + ("" if sentence.endswith("?") else ".")
    return ""
