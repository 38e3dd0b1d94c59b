"""Packed-document attention: the same body on every backend. Shows RC2-8.6 (unequal head sizes 192/128)."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from contracts.errors import UserInputError
from kernels.packed_attention import packed_attention, reference

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2}
# Document lengths, and rows behind the last one.
PACKINGS = {
    "mixed": ([3, 0, 40, 1, 7], 5),
    "one": ([33], 0),
    "short ones": ([2, 5, 1, 16, 17, 4], 0),
    "long ones": ([70, 35], 1),
    "none": ([], 4),
    "no rows": ([0], 0),
}
Heads = tuple[int, int, int, int]
# Query heads, key heads, head size, value head size.
CASES = [
    ((2, 2, 16, 16), torch.float32),
    ((3, 1, 24, 8), torch.float32),
    ((4, 2, 12, 20), torch.bfloat16),
]


def inputs(lengths: list[int], tail: int, heads: Heads, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    rows, (h, g, d, e) = sum(lengths) + tail, heads
    shapes = [(rows, h, d), (rows, g, d), (rows, g, e), (rows, h, e)]
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0).to(torch.int32)
    return [torch.randn(shape).to(dtype) for shape in shapes], ends


def gradients(tensors: list[Tensor], ends: Tensor, backend: str, device: str) -> list[Tensor]:
    q, k, v = (t.detach().to(device).requires_grad_() for t in tensors[:3])
    y = packed_attention(q, k, v, ends.to(device), backend=backend)
    if not y.requires_grad:
        return [y.cpu(), *(torch.zeros_like(t) for t in tensors[:3])]
    y.backward(tensors[3].to(device))
    return [t.detach().cpu() for t in (y, q.grad, k.grad, v.grad) if t is not None]


@pytest.mark.parametrize(("heads", "dtype"), CASES, ids=str)
@pytest.mark.parametrize("packing", PACKINGS)
def test_attention_and_gradients(packing: str, heads: Heads, dtype: torch.dtype, backend: str, device: str) -> None:
    tensors, ends = inputs(*PACKINGS[packing], heads, dtype)
    actual = gradients(tensors, ends, backend, device)
    expected = gradients([t.double() for t in tensors], ends, "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_packed_equals_independent_rows_in_float64(name: str) -> None:
    lengths = [5, 90, 1, 17, 64]
    tensors, ends = inputs(lengths, 0, (4, 2, 16, 16), torch.float64)
    packed = gradients(tensors, ends, name, "cpu")
    start = 0
    for length in lengths:
        rows = slice(start, start + length)
        q, k, v = (t[rows].clone().transpose(0, 1).unsqueeze(0).requires_grad_() for t in tensors[:3])
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        y.backward(tensors[3][rows].transpose(0, 1).unsqueeze(0))
        for got, want in zip(packed, (y, q.grad, k.grad, v.grad), strict=True):
            assert want is not None
            gap = (got[rows] - want.detach().squeeze(0).transpose(0, 1)).abs().max()
            assert float(gap) <= 1e-10
        start += length


@pytest.mark.parametrize("change", ["value", "nan", "inf"])
def test_nothing_leaks_between_documents_nor_from_later_values(change: str, backend: str, device: str) -> None:
    tensors, ends = inputs([20, 70, 9], 0, (2, 1, 16, 16), torch.float32)
    clean = gradients(tensors, ends, backend, device)
    touched = [t.clone() for t in tensors]
    with torch.no_grad():
        for t in touched[:3]:
            t[50] = {"value": 100.0, "nan": float("nan"), "inf": float("inf")}[change]
    dirty = gradients(touched, ends, backend, device)
    others = [*range(20), *range(90, 99)]
    for before, after in zip(clean, dirty, strict=True):
        assert torch.equal(before[others], after[others])
    if change == "value":
        assert torch.equal(clean[0][:50], dirty[0][:50])
    assert not torch.equal(clean[0][50:90], dirty[0][50:90])


def test_strided_inputs(backend: str, device: str) -> None:
    tensors, ends = inputs([20, 50], 0, (2, 2, 32, 32), torch.float32)
    sliced = [t[..., ::2] for t in tensors]
    actual = gradients(sliced, ends, backend, device)
    expected = gradients([t.contiguous() for t in sliced], ends, "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("heads", [(2, 1, 6, 4), (1, 1, 192, 128)], ids=str)
@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_gradients_are_numerically_right(name: str, heads: Heads) -> None:
    """Also with DeepSeek's query and key heads of 192 and value heads of 128 (RC2-8.6)."""
    tensors, ends = inputs([3, 1], 1, heads, torch.float64)
    leaves = [t.requires_grad_() for t in tensors[:3]]
    assert torch.autograd.gradcheck(lambda q, k, v: packed_attention(q, k, v, ends, backend=name), leaves)


def test_deepseek_head_sizes() -> None:
    tensors, ends = inputs([70, 12], 0, (2, 2, 192, 128), torch.float32)
    actual = gradients(tensors, ends, "cpu", "cpu")
    expected = gradients([t.double() for t in tensors], ends, "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)


def test_impossible_calls_say_what_to_do() -> None:
    tensors, ends = inputs([4], 0, (2, 2, 8, 8), torch.float32)
    q, k, v = tensors[:3]
    with pytest.raises(UserInputError, match="do not fit"):
        packed_attention(q, k[..., :4], v, ends)
    with pytest.raises(UserInputError, match="int32"):
        packed_attention(q, k, v, ends.long())
    with pytest.raises(UserInputError, match="ascending"):
        packed_attention(q, k, v, ends + 1)
    with pytest.raises(UserInputError, match="does not serve float64"):
        packed_attention(q.double(), k.double(), v.double(), ends, backend="triton")
    if importlib.util.find_spec("triton"):
        with pytest.raises(UserInputError, match="heads of 300"):
            packed_attention(*(torch.zeros(4, 1, 300),) * 3, ends, backend="triton")
    assert reference.packed_attention(q, k, v, ends, 1.0).shape == (4, 2, 8)
