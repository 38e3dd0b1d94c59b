"""Output layer and loss: the same body on every backend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from contracts.errors import UserInputError
from kernels.cross_entropy import IGNORE, Loss, cross_entropy, reference
from kernels.cross_entropy.bench import TOKENS, VOCABULARY

ROOT = Path(__file__).parents[2]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def inputs(tokens: int, width: int, vocabulary: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    hidden, weight = torch.randn(tokens, width).to(dtype), (torch.randn(vocabulary, width) / 2).to(dtype)
    return hidden, weight, torch.randint(0, vocabulary, (tokens,))


def gradients(
    hidden: Tensor, weight: Tensor, targets: Tensor, z: float, backend: str, device: str, *, upstream: float = 1.0
) -> tuple[Loss, Tensor, Tensor]:
    hidden, weight = (t.detach().to(device).requires_grad_() for t in (hidden, weight))
    loss = cross_entropy(hidden, weight, targets.to(device), z_coefficient=z, backend=backend)
    (loss.total * upstream).backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return Loss(*(value.detach().cpu() for value in loss)), hidden.grad.cpu(), weight.grad.cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("z", [0.0, 0.01])
@pytest.mark.parametrize("shape", [(37, 20, 53), (1, 5, 2), (0, 4, 7)], ids=str)
def test_loss_and_gradients(
    shape: tuple[int, int, int], z: float, dtype: torch.dtype, backend: str, device: str
) -> None:
    hidden, weight, targets = inputs(*shape, dtype)
    targets[5:9] = IGNORE
    got = gradients(hidden, weight, targets, z, backend, device, upstream=0.5)
    want = gradients(hidden.double(), weight.double(), targets, z, "reference", "cpu", upstream=0.5)
    for mine, theirs in zip((*got[0], *got[1:]), (*want[0], *want[1:]), strict=True):
        scale = float(theirs.abs().max()) if theirs.numel() else 0.0
        torch.testing.assert_close(mine.double(), theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale + 1e-7)
    assert not got[1][5:9].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_several_chunks_equal_one(dtype: torch.dtype) -> None:
    """A vocabulary so large that the CPU path needs three chunks for 300 tokens."""
    hidden, weight, targets = inputs(300, 4, 20000, dtype)
    targets[120:140] = IGNORE
    got = gradients(hidden, weight, targets, 0.01, "cpu", "cpu")
    want = gradients(hidden, weight, targets, 0.01, "reference", "cpu")
    for mine, theirs in zip((*got[0], *got[1:]), (*want[0], *want[1:]), strict=True):
        bound = TOLERANCE[dtype]
        torch.testing.assert_close(mine, theirs, rtol=bound, atol=bound * float(theirs.abs().max()))


def test_agrees_with_torch(backend: str, device: str) -> None:
    hidden, weight, targets = inputs(30, 16, 40, torch.float32)
    targets[::7] = IGNORE
    loss, dhidden, dweight = gradients(hidden, weight, targets, 0.0, backend, device)
    hidden.requires_grad_()
    weight.requires_grad_()
    expected = functional.cross_entropy(hidden @ weight.t(), targets, ignore_index=IGNORE)
    expected.backward()
    torch.testing.assert_close(loss.total, expected.detach())
    torch.testing.assert_close(dhidden, hidden.grad)
    torch.testing.assert_close(dweight, weight.grad)


def test_no_counted_token_gives_zero(backend: str, device: str) -> None:
    hidden, weight, targets = inputs(6, 8, 9, torch.float32)
    targets.fill_(IGNORE)
    loss, dhidden, dweight = gradients(hidden, weight, targets, 0.1, backend, device)
    assert float(loss.total) == 0.0
    assert not dhidden.any()
    assert not dweight.any()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_token_is_loud_unless_it_does_not_count(value: float, backend: str, device: str) -> None:
    hidden, weight, targets = inputs(6, 8, 9, torch.float32)
    hidden[2, 3] = value
    assert not gradients(hidden, weight, targets, 0.1, backend, device)[0].total.isfinite()
    targets[2] = IGNORE
    loss, dhidden, _ = gradients(hidden, weight, targets, 0.1, backend, device)
    assert loss.total.isfinite()
    assert loss.token_losses[2] == 0.0
    assert dhidden[[0, 1, 3, 4, 5]].isfinite().all()


def test_evaluation_takes_no_gradient_and_the_same_value(backend: str, device: str) -> None:
    hidden, weight, targets = (t.to(device) for t in inputs(20, 8, 30, torch.float32))
    with torch.no_grad():
        quiet = cross_entropy(hidden, weight, targets, z_coefficient=0.1, backend=backend)
    loud = cross_entropy(hidden.requires_grad_(), weight, targets, z_coefficient=0.1, backend=backend)
    assert not quiet.total.requires_grad
    assert torch.equal(quiet.total, loud.total.detach())


def test_strided_inputs(backend: str, device: str) -> None:
    hidden, weight, targets = torch.randn(16, 20).t()[:, ::2], torch.randn(8, 30).t(), torch.randint(0, 30, (20,))
    got = gradients(hidden, weight, targets, 0.01, backend, device)
    want = gradients(hidden.contiguous(), weight.contiguous(), targets, 0.01, "reference", "cpu")
    for mine, theirs in zip((*got[0], *got[1:]), (*want[0], *want[1:]), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak counter")
def test_logits_are_never_whole() -> None:
    """One step's peak memory, inputs aside, is far below one float32 matrix of logits."""
    command = [sys.executable, "-m", "kernels.cross_entropy.bench", "--peak", "ours"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 * TOKENS * VOCABULARY / 3


def test_gradients_of_the_reference() -> None:
    hidden, weight, targets = inputs(5, 3, 4, torch.float64)
    targets[1] = IGNORE
    leaves = (hidden.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda h, w: reference.cross_entropy(h, w, targets, 0.05).total, leaves)


def test_impossible_calls_say_what_to_do() -> None:
    hidden, weight, targets = inputs(6, 8, 9, torch.float32)
    with pytest.raises(UserInputError, match="outside the vocabulary"):
        cross_entropy(hidden, weight, targets + 9)
    with pytest.raises(UserInputError, match="do not fit"):
        cross_entropy(hidden, weight.t(), targets)
    with pytest.raises(UserInputError, match="dtypes differ"):
        cross_entropy(hidden, weight.double(), targets)
