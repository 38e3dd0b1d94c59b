"""Batched Newton-Schulz: the same body on every backend."""

from __future__ import annotations

import pytest
import torch
from torch.optim import _muon

from contracts.errors import UserInputError
from kernels.newton_schulz import newton_schulz
from kernels.newton_schulz.settings import COEFFICIENTS, EPSILON


@pytest.mark.parametrize("shape", [(3, 8, 20), (2, 40, 33), (1, 1, 5), (2, 16, 16)], ids=str)
def test_every_matrix_as_the_reference(shape: tuple[int, int, int], backend: str, device: str) -> None:
    update = torch.randn(shape)
    got = newton_schulz(update.to(device), compute=torch.float32, backend=backend).cpu()
    want = newton_schulz(update.double(), compute=torch.float64, backend="reference").float()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_bf16_is_near_and_singular_values_lie_in_the_band(backend: str, device: str) -> None:
    update = torch.randn(4, 24, 48)
    got = newton_schulz(update.to(device), backend=backend).cpu()
    assert got.dtype == torch.float32
    want = newton_schulz(update.double(), compute=torch.float64, backend="reference").float()
    assert float((got - want).abs().max()) < 0.05
    values = torch.linalg.svdvals(got)
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


def test_a_stack_equals_torch_muon_matrix_by_matrix() -> None:
    update = torch.randn(3, 24, 48)
    got = newton_schulz(update, backend="cpu")
    for mine, matrix in zip(got, update, strict=True):
        theirs = _muon._zeropower_via_newtonschulz(matrix, COEFFICIENTS, 5, EPSILON)
        assert float((mine - theirs.float()).abs().max()) <= 2**-6


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_zero_and_bad_matrices_stay_their_own_business(value: float, backend: str, device: str) -> None:
    update = torch.randn(3, 6, 9)
    clean = newton_schulz(update.to(device), backend=backend).cpu()
    update[0], update[1, 2, 2] = 0.0, value
    got = newton_schulz(update.to(device), backend=backend).cpu()
    assert not got[0].any()
    assert got[1].isnan().all()
    assert torch.equal(got[2], clean[2])


def test_strided_and_empty_stacks(backend: str, device: str) -> None:
    update = torch.randn(9, 12, 4).permute(2, 1, 0)[::2]
    got = newton_schulz(update.to(device), compute=torch.float32, backend=backend).cpu()
    want = newton_schulz(update.contiguous(), compute=torch.float32, backend="reference")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert newton_schulz(torch.zeros(0, 3, 4, device=device), backend=backend).shape == (0, 3, 4)


def test_impossible_calls_say_what_to_do() -> None:
    with pytest.raises(UserInputError, match=r"not \[E, M, N\]"):
        newton_schulz(torch.zeros(3, 4))
    with pytest.raises(UserInputError, match="cannot compute"):
        newton_schulz(torch.zeros(1, 3, 4), compute=torch.int32)
