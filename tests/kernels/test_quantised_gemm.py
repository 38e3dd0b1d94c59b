"""Grouped GEMM in MXFP8 and NVFP4: flow of formats, gradients, and the report's small studies."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contracts.errors import UserInputError
from kernels import mxfp8
from kernels.grouped_gemm import Permutation, expert_mlp, grouped_gemm, sort_by_expert
from kernels.nvfp4.study import division_study, scaling_study
from kernels.quantised_gemm import Precision, quantised_expert_mlp, quantised_grouped_gemm
from kernels.quantised_gemm.rounding import round_columns, round_rows
from kernels.quantised_gemm.study import gradient_error, log_prob_gap

ALL_BF16 = Precision(dispatch="bf16", forward="bf16", backward="bf16", combine="bf16")
SETTINGS = [Precision(), Precision(dispatch="bf16", forward="mxfp8", backward="nvfp4", combine="mxfp8")]


def inputs(loads: list[int], tail: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = sum(loads) + tail
    x, w, dy = torch.randn(rows, 48), torch.randn(len(loads), 48, 40) / 7, torch.randn(rows, 40)
    return x, w, dy, torch.tensor(loads).cumsum(0).to(torch.int32)


def gradients(
    x: Tensor, w: Tensor, dy: Tensor, offsets: Tensor, precision: Precision, backend: str, device: str
) -> list[Tensor]:
    x, w = (t.detach().to(device).requires_grad_() for t in (x, w))
    y = quantised_grouped_gemm(x, w, offsets.to(device), precision=precision, backend=backend)
    y.backward(dy.to(device))
    return [t.detach().cpu() for t in (y, x.grad, w.grad) if t is not None]


@pytest.mark.parametrize("precision", SETTINGS, ids=["report", "other"])
def test_every_backend_computes_the_same(precision: Precision, backend: str, device: str) -> None:
    """Shows RC2-8.1: one grouped GEMM with a defined quantise, forward and backward flow."""
    x, w, dy, offsets = inputs([5, 0, 34, 7], tail=2)
    got = gradients(x, w, dy, offsets, precision, backend, device)
    want = gradients(x, w, dy, offsets, precision, "reference", "cpu")
    # The combine format rounds float32 sums that may differ in their last bits: one step of that format.
    step = 2.0**-7 if precision.combine == "bf16" else 2.0**-3
    for mine, theirs, bound in zip(got, want, (step, 1e-5, 1e-5), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=bound, atol=1e-5)
    assert not got[0][46:].any()
    assert not got[1][46:].any()
    assert not got[2][1].any()


def test_formats_that_hold_the_values_change_nothing() -> None:
    """Small integers survive bf16, so a bf16 flow equals the plain product, gradients too."""
    x, w, dy, offsets = (t.round() if t.is_floating_point() else t for t in inputs([4, 9]))
    got = gradients(x, w, dy, offsets, ALL_BF16, "cpu", "cpu")
    x.requires_grad_()
    w.requires_grad_()
    y = grouped_gemm(x, w, offsets)
    y.backward(dy)
    for mine, theirs in zip(got, (y.detach(), x.grad, w.grad), strict=True):
        assert torch.equal(mine, theirs)


def test_row_and_column_scaled_copies_differ() -> None:
    x, offsets = torch.randn(70, 64) * torch.logspace(-3, 3, 64), torch.tensor([40, 70], dtype=torch.int32)
    rows, columns = round_rows(x, "mxfp8", None), round_columns(x, offsets, "mxfp8", None)
    assert not torch.equal(rows, columns)
    for start, stop in ((0, 40), (40, 70)):
        along = mxfp8.dequantise(mxfp8.quantise(x[start:stop].t().contiguous())).t()
        assert torch.equal(columns[start:stop], along)


def test_column_scales_are_not_shared_between_experts() -> None:
    x, offsets = torch.randn(40, 32), torch.tensor([10, 40], dtype=torch.int32)
    before = round_columns(x, offsets, "mxfp8", None)
    x[:10] *= 1000
    assert torch.equal(round_columns(x, offsets, "mxfp8", None)[10:], before[10:])


@pytest.mark.parametrize("precision", SETTINGS, ids=["report", "other"])
def test_a_token_does_not_see_its_batch(precision: Precision) -> None:
    """Shows RC2-8.3: with scales per token the same row gives the same result in any batch."""
    x, w, _, offsets = inputs([8, 8])
    alone = quantised_grouped_gemm(x, w, offsets, precision=precision)
    other = x.clone()
    other[1:] *= 100
    assert torch.equal(quantised_grouped_gemm(other, w, offsets, precision=precision)[0], alone[0])


def test_per_token_scales_leak_nothing_and_per_tensor_scales_do() -> None:
    """Shows RC2-8.3: enlarge the last token by 37; earlier values change 0 % per token, about 93 % per tensor."""
    token, tensor = scaling_study("token", seed=3), scaling_study("tensor", seed=3)
    assert token.leaked == 0.0
    assert token.batch_gap == 0.0
    assert token.logit_gap == 0.0
    assert 0.85 < tensor.leaked < 0.99
    assert tensor.batch_gap > 0.1
    assert tensor.logit_gap > 0.9


def test_an_approximate_division_flips_nvfp4_codes_and_no_mxfp8_ones() -> None:
    """Shows RC2-8.5: a reciprocal flips some per-token NVFP4 codes and scales; power-of-two scales are immune."""
    study = division_study(seed=5)
    assert 1e-5 < study.nvfp4_codes < 5e-3
    assert study.nvfp4_scales < 5e-3
    assert study.nvfp4_codes + study.nvfp4_scales > 1e-4
    assert study.mxfp8_codes == 0.0
    assert study.mxfp8_scales == 0.0


def test_an_mxfp8_backward_is_nearer_than_an_nvfp4_one() -> None:
    """Shows RC2-8.4: gradient cosine and relative error of the backward formats."""
    mx, nv, bf16 = (gradient_error(form, seed=2) for form in ("mxfp8", "nvfp4", "bf16"))
    assert bf16.relative == 0.0
    assert mx.relative < 0.06 < nv.relative < 0.3
    assert mx.cosine > 0.998 > nv.cosine > 0.95


def test_log_probabilities_agree_only_when_the_forward_formats_do() -> None:
    """Shows RC2-8.4: the gap between sampler and trainer, whatever else is in their batches."""
    assert log_prob_gap("nvfp4", "nvfp4", seed=1) == 0.0
    assert log_prob_gap("nvfp4", "mxfp8", seed=1) > 0.01
    assert log_prob_gap("nvfp4", "bf16", seed=1) > 0.01


def mlp_inputs() -> tuple[list[Tensor], Permutation, Tensor]:
    experts = torch.tensor([[0, 2], [2, 3], [-1, 0], [3, 2], [0, 3]] * 4)
    tensors = [torch.randn(20, 40), torch.rand(20, 2), torch.randn(4, 40, 48) / 6, torch.randn(4, 24, 40) / 5]
    tensors[1][2, 0] = float("nan")  # the gate of a dropped pair
    return tensors, sort_by_expert(experts, 4), torch.randn(20, 40)


def mlp_gradients(precision: Precision | None, backend: str | None, device: str) -> list[Tensor]:
    torch.manual_seed(3)
    tensors, permutation, dy = mlp_inputs()
    leaves = [t.to(device).requires_grad_() for t in tensors]
    moved = Permutation(**{name: value.to(device) for name, value in vars(permutation).items()})
    x, gates, gate_up, down = leaves
    y = (
        expert_mlp(x, gates, gate_up, down, moved, backend=backend)
        if precision is None
        else quantised_expert_mlp(x, gates, gate_up, down, moved, precision=precision, backend=backend)
    )
    return [t.detach().cpu() for t in (y, *torch.autograd.grad(y, leaves, dy.to(device)))]


@pytest.mark.parametrize("precision", [ALL_BF16, *SETTINGS], ids=["bf16", "report", "other"])
def test_the_quantised_expert_mlp(precision: Precision, backend: str, device: str) -> None:
    """Every backend as the reference, and near the plain expert MLP; the expert without tokens gets no gradient."""
    got, want = mlp_gradients(precision, backend, device), mlp_gradients(precision, "reference", "cpu")
    plain = mlp_gradients(None, "reference", "cpu")
    bound = {"bf16": 0.02, "nvfp4": 0.5, "mxfp8": 0.3}[precision.forward]
    for mine, theirs, exact in zip(got, want, plain, strict=True):
        # A float32 sum that rounds the other way moves a hidden value by one step of its format.
        assert float((mine - theirs).norm()) <= 0.02 * float(theirs.norm())
        assert float((mine - exact).norm()) <= bound * float(exact.norm())
    assert not got[3][1].any()
    assert not got[4][1].any()


def test_no_tokens_at_all(backend: str, device: str) -> None:
    x, w = torch.zeros(0, 48, device=device), torch.randn(2, 48, 40, device=device, requires_grad=True)
    offsets = torch.zeros(2, dtype=torch.int32, device=device)
    y = quantised_grouped_gemm(x, w, offsets, precision=Precision(), backend=backend)
    assert y.shape == (0, 40)
    assert not torch.autograd.grad(y.sum(), w)[0].any()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_row_is_loud_and_changes_no_other_row(value: float, backend: str, device: str) -> None:
    x, w, dy, offsets = inputs([5, 7])
    clean = gradients(x, w, dy, offsets, Precision(), backend, device)
    x[2, 3] = value
    got = gradients(x, w, dy, offsets, Precision(), backend, device)
    others = [row for row in range(12) if row != 2]
    assert got[0][2].isnan().all()
    assert torch.equal(got[0][others], clean[0][others])
    assert torch.equal(got[1], clean[1])
    assert got[2][0].isnan().any()
    assert torch.equal(got[2][1], clean[2][1])


def test_inputs_need_not_be_contiguous(backend: str, device: str) -> None:
    offsets = torch.tensor([9, 14], dtype=torch.int32)
    x, w, dy = torch.randn(48, 28).t()[::2], torch.randn(2, 40, 48).mT, torch.randn(40, 14).t()
    got = gradients(x, w, dy, offsets, ALL_BF16, backend, device)
    want = gradients(x.contiguous(), w.contiguous(), dy.contiguous(), offsets, ALL_BF16, "reference", "cpu")
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2.0**-7, atol=1e-5)


def test_a_flagged_expert_product_trains_nearly_as_well_as_bf16() -> None:
    """Shows RC2-8.2: a tiny policy's loss with the report's formats stays close to bf16's."""
    finals = [_train(p) for p in (Precision(dispatch="bf16", forward="bf16", backward="bf16"), Precision())]
    assert finals[0] < 0.2
    assert finals[1] < finals[0] + 0.1


def _train(precision: Precision) -> float:
    torch.manual_seed(0)
    x, offsets = torch.randn(64, 32), torch.tensor([30, 64], dtype=torch.int32)
    target = grouped_gemm(x, torch.randn(2, 32, 16) / 5, offsets)
    w = torch.zeros(2, 32, 16, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=0.05)
    for _ in range(60):
        loss = (quantised_grouped_gemm(x, w, offsets, precision=precision) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return float(loss.detach())


def test_impossible_calls_say_what_to_do() -> None:
    x, w, _, offsets = inputs([3])
    with pytest.raises(UserInputError, match="float32 or bfloat16"):
        quantised_grouped_gemm(x.double(), w.double(), offsets, precision=Precision())
    with pytest.raises(UserInputError, match="unknown backend"):
        quantised_grouped_gemm(x, w, offsets, precision=Precision(), backend="cuda")
