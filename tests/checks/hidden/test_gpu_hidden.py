"""The checks that need a GPU: the same answers there as each of torch's CUDA kernels gives, forward and back.

Without a GPU they are skipped. A kernel that does not take a case is named in the report, with its reason.
"""

from __future__ import annotations

import pytest
from checks import inputs, parity, torch

from grader import expect

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.parametrize("dtype", parity.DTYPES)]


@pytest.mark.check("torch_attention.attention", points=1)
def test_gpu_attention(student, rng, gpu, remark, dtype):
    """on a GPU attention agrees with torch's kernels, and so do its gradients"""
    _compare("attention", rng, dtype, gpu, remark, lambda case, *given: expect.pair(student.attention(*given))[0])


@pytest.mark.check("torch_attention.efficient_mha", points=1)
def test_gpu_efficient(student, rng, gpu, remark, dtype):
    """on a GPU efficient_mha agrees with torch's kernels, for 4,096 tokens too, and so do its gradients"""

    def call(case, q, k, v, hidden):
        return student.efficient_mha(q, k, v, None if case.triangle_alone else hidden, is_causal=case.causal)

    _compare("efficient_mha", rng, dtype, gpu, remark, call)


@pytest.mark.check("grouped_query.grouped_query_attention", points=1)
def test_gpu_grouped(student, rng, gpu, remark, dtype):
    """on a GPU shared heads agree with torch's kernels, and so do the gradients"""
    name = "grouped_query_attention"
    _compare(name, rng, dtype, gpu, remark, lambda case, *given: expect.pair(student.grouped_query_attention(*given))[0])


@pytest.mark.check("torch_attention.MultiHeadAttention", points=1)
def test_gpu_mha(student, rng, gpu, remark, dtype):
    """on a GPU the module agrees with torch's kernels, and so do the gradients of x and of its matrices"""
    dues = {}
    for case in parity.CASES["MultiHeadAttention"]:
        d_model, hidden = case.heads * case.d_k, case.hidden(rng, gpu)
        x, W = inputs.values(rng, case.batch, case.n_q, d_model), inputs.matrices(rng, d_model)
        names = {f"{name}.weight": matrix.T for name, matrix in W.items()}
        leaves = {name: parity.leaf(array, dtype, gpu) for name, array in {"x": x, **names}.items()}
        upstream = inputs.tensor(inputs.values(rng, *x.shape), dtype).to(gpu)
        dues[case.name] = parity.dues(parity.multi_head(case.heads), case, hidden, leaves, upstream)
        mha = student.MultiHeadAttention(d_model, case.heads)
        expect.module(mha, {name: array.shape for name, array in names.items()})
        inputs.load(mha, W)
        mha.to(gpu, getattr(torch, dtype))
        output, _ = expect.pair(mha(leaves["x"], hidden))
        given = {"x": leaves["x"], **{name: mha.get_parameter(name) for name in names}}
        _expect(case.name, dues[case.name], output, given, upstream)
    for sentence in parity.told(dues):
        remark(sentence)


def _compare(name, rng, dtype, gpu, remark, call):
    """What is due first, then the student's function on the same q, k, v and mask."""
    dues = {}
    for case in parity.CASES[name]:
        leaves = dict(zip("qkv", case.qkv(rng, dtype, gpu), strict=True))
        hidden, upstream = case.hidden(rng, gpu), inputs.values(rng, case.batch, case.heads, case.n_q, case.d_v)
        upstream = inputs.tensor(upstream, dtype).to(gpu)
        dues[case.name] = parity.dues(parity.heads_alone, case, hidden, leaves, upstream)
        _expect(case.name, dues[case.name], call(case, *leaves.values(), hidden), leaves, upstream)
    for sentence in parity.told(dues):
        remark(sentence)


def _expect(name, due, output, given, upstream):
    """The output and the gradients of what was given are those due, and those of every kernel that takes the case."""
    like = next(iter(given.values()))
    expect.close(output, due.reference[0], like=like, label=f"{name}: output", tolerance=(0, due.slack[0]))
    found = [output]
    if due.names:
        found += expect.gradients(output, upstream, given).values()
    beside = [("", due.reference, 1), *((f" beside torch's {kernel}", wanted, 2) for kernel, wanted in due.kernels.items())]
    for words, wanted, roundings in beside:
        for label, got, want, slack in zip(due.labels(), found, wanted, due.slack, strict=True):
            expect.close(got, want, like=like, label=f"{name}: {label}{words}", tolerance=(0, roundings * slack))
