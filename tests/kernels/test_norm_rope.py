"""RMSNorm and RoPE: the same body on every backend."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from contracts.errors import UserInputError
from kernels.norm_rope import norm_rope, reference, rope_tables

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def gradients(
    x: Tensor, weight: Tensor, dy: Tensor, tables: tuple[Tensor, Tensor], backend: str, device: str
) -> list[Tensor]:
    x, weight = (t.detach().to(device).requires_grad_() for t in (x, weight))
    y = norm_rope(x, weight, *(t.to(device) for t in tables), backend=backend)
    y.backward(dy.to(device))
    return [t.detach().cpu() for t in (y, x.grad, weight.grad) if t is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(19, 3, 16), (1, 1, 2), (5, 2, 12), (0, 2, 8)], ids=str)
def test_value_and_gradients(shape: tuple[int, int, int], dtype: torch.dtype, backend: str, device: str) -> None:
    x, weight, dy = torch.randn(shape).to(dtype), torch.randn(shape[2]).to(dtype), torch.randn(shape).to(dtype)
    tables = rope_tables(torch.arange(shape[0]) * 7, shape[2], base=10000.0)
    actual = gradients(x, weight, dy, tables, backend, device)
    expected = gradients(x.double(), weight.double(), dy.double(), tables, "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        assert got.dtype == dtype
        scale = float(want.abs().max()) if want.numel() else 0.0
        torch.testing.assert_close(got.double(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale + 1e-6)


def test_is_torch_rms_norm_at_position_zero_and_keeps_lengths(backend: str, device: str) -> None:
    x, weight = torch.randn(4, 2, 8), torch.rand(8) + 0.5
    still = rope_tables(torch.zeros(4), 8, base=100.0)
    got = norm_rope(x.to(device), weight.to(device), *(t.to(device) for t in still), backend=backend).cpu()
    want = functional.rms_norm(x, (8,), weight, 1e-6)
    torch.testing.assert_close(got, want)
    turned = rope_tables(torch.arange(4) * 1000, 8, base=100.0)
    moved = norm_rope(x.to(device), weight.to(device), *(t.to(device) for t in turned), backend=backend).cpu()
    torch.testing.assert_close(moved.norm(dim=-1), want.norm(dim=-1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_row_changes_no_other(value: float, backend: str, device: str) -> None:
    x, weight, dy, tables = (
        torch.randn(6, 2, 8),
        torch.rand(8),
        torch.randn(6, 2, 8),
        rope_tables(torch.arange(6), 8, base=10.0),
    )
    clean = gradients(x, weight, dy, tables, backend, device)
    x[3, 1, 5] = value
    bad = gradients(x, weight, dy, tables, backend, device)
    keep = torch.ones(6, 2, dtype=torch.bool)
    keep[3, 1] = False
    assert not bad[0][3, 1].isfinite().all()
    assert torch.equal(bad[0][keep], clean[0][keep])
    assert torch.equal(bad[1][keep], clean[1][keep])


def test_strided_inputs(backend: str, device: str) -> None:
    x, dy = torch.randn(16, 3, 10).permute(2, 1, 0), torch.randn(16, 3, 10).permute(2, 1, 0)
    weight, tables = torch.rand(32)[::2], rope_tables(torch.arange(10), 16, base=10.0)
    actual = gradients(x, weight, dy, tables, backend, device)
    expected = gradients(x.contiguous(), weight.contiguous(), dy.contiguous(), tables, "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_gradients_of_the_reference() -> None:
    x, weight = torch.randn(3, 2, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    tables = rope_tables(torch.arange(3), 4, base=10.0)
    leaves = (x.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, w: reference.norm_rope(a, w, *tables, 1e-6), leaves)


def test_impossible_calls_say_what_to_do() -> None:
    with pytest.raises(UserInputError, match="do not fit"):
        norm_rope(torch.zeros(3, 2, 8), torch.zeros(6), torch.zeros(3, 4), torch.zeros(3, 4))
