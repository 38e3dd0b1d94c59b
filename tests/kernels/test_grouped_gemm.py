"""Grouped GEMM and the expert MLP: the same body on every backend. Shows RC2-8.1 (grouped GEMM tested end to end)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contracts.errors import UserInputError
from kernels.grouped_gemm import Permutation, expert_mlp, grouped_gemm, reference, sort_by_expert

# Loads of groups, and rows behind the last one.
CASES = {
    "ragged": ([3, 0, 17, 40, 0], 0),
    "equal": ([8, 8, 8], 0),
    "equal with a tail": ([8, 8, 8], 5),
    "many small": ([2, 5, 0, 1, 7, 3, 4, 2], 3),
    "one large": ([0, 110, 2], 1),
    "no tokens": ([0, 0, 0], 0),
    "only a tail": ([0, 0], 4),
}
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1.6e-2}


def ends_of(loads: list[int]) -> Tensor:
    return torch.tensor(loads).cumsum(0).to(torch.int32)


def close(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Equal up to the dtype's rounding, relative to the largest value."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    scale = expected.float().abs().max() if expected.numel() else 1.0
    torch.testing.assert_close(
        actual.cpu().float(), expected.float(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * float(scale) + 1e-30
    )


def gemm_case(loads: list[int], tail: int, inner: int, outer: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    rows = sum(loads) + tail
    x_TK = torch.randn(rows, inner).to(dtype)
    w_EKN = torch.randn(len(loads), inner, outer).to(dtype)
    return x_TK, w_EKN, torch.randn(rows, outer).to(dtype)


def gradients(x: Tensor, w: Tensor, offsets: Tensor, dy: Tensor, backend: str, device: str) -> list[Tensor]:
    x, w = (t.detach().to(device).requires_grad_() for t in (x, w))
    y = grouped_gemm(x, w, offsets.to(device), backend=backend)
    y.backward(dy.to(device))
    return [t.detach().cpu() for t in (y, x.grad, w.grad)]  # type: ignore[union-attr]


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, (16, 24)), (torch.bfloat16, (40, 37))], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_product_and_both_gradients(
    case: str, size: tuple[int, int], dtype: torch.dtype, backend: str, device: str
) -> None:
    loads, tail = CASES[case]
    x, w, dy = gemm_case(loads, tail, *size, dtype)
    actual = gradients(x, w, ends_of(loads), dy, backend, device)
    wide = [t.double() for t in (x, w, dy)]
    expected = gradients(wide[0], wide[1], ends_of(loads), wide[2], "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        close(got, want.to(dtype), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_no_group_are_zero_even_over_dirty_memory(dtype: torch.dtype, backend: str, device: str) -> None:
    x, w, dy = gemm_case([5, 0, 30], 6, 16, 8, dtype)
    for _ in range(3):
        rubbish = torch.full((41, 16), float("nan"), dtype=dtype, device=device)
        del rubbish
        y, dx, _ = gradients(x, w, ends_of([5, 0, 30]), dy, backend, device)
        assert torch.equal(y[35:], torch.zeros_like(y[35:]))
        assert torch.equal(dx[35:], torch.zeros_like(dx[35:]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("loads", [[4, 3, 0, 6], [37, 0, 33]], ids=str)
def test_a_bad_row_stays_in_its_group(
    loads: list[int], dtype: torch.dtype, value: float, backend: str, device: str
) -> None:
    x, w, dy = gemm_case(loads, 2, 16, 8, dtype)
    row = loads[0] + 1 if loads[1] else 38
    clean = gradients(x, w, ends_of(loads), dy, backend, device)
    x[row, 3] = value
    y, dx, dw = gradients(x, w, ends_of(loads), dy, backend, device)
    assert not y[row].isfinite().any()
    bad = 1 if loads[1] else 2
    assert not dw[bad, 3].isfinite().any()
    others = torch.arange(len(x)) != row
    assert torch.equal(y[others], clean[0][others])
    assert torch.equal(dx, clean[1])
    finite = torch.ones_like(dw, dtype=torch.bool)
    finite[bad, 3] = False
    close(dw[finite], clean[2][finite], dtype)


def test_inputs_need_not_be_contiguous(backend: str, device: str) -> None:
    offsets = ends_of([3, 9, 0, 2])
    x, w, dy = torch.randn(16, 14).t()[:, ::2], torch.randn(4, 24, 16).mT[:, ::2], torch.randn(24, 14).t()
    actual = gradients(x, w, offsets, dy, backend, device)
    expected = gradients(x.contiguous(), w.contiguous(), offsets, dy.contiguous(), "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        close(got, want, torch.float32)


def test_gradients_of_the_reference() -> None:
    x, w, _ = gemm_case([3, 0, 2], 1, 4, 3, torch.float64)
    gate_up, down = torch.randn(3, 4, 6, dtype=torch.float64), torch.randn(3, 3, 4, dtype=torch.float64)
    permutation = sort_by_expert(torch.tensor([[0, 2], [2, 1], [-1, 0]]), 3)
    gates = torch.rand(3, 2, dtype=torch.float64)
    tokens = torch.randn(3, 4, dtype=torch.float64)
    for tensor in (x, w, gate_up, down, gates, tokens):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: reference.grouped_gemm(a, b, ends_of([3, 0, 2])), (x, w))
    mlp = lambda a, g, u, d: reference.expert_mlp(a, g, u, d, permutation)  # noqa: E731
    assert torch.autograd.gradcheck(mlp, (tokens, gates, gate_up, down))


def mlp_inputs(experts: Tensor, num_experts: int, dtype: torch.dtype) -> tuple[list[Tensor], Permutation, Tensor]:
    num_tokens, num_choices = experts.shape
    width, hidden = 20, 12
    tensors = [
        torch.randn(num_tokens, width).to(dtype),
        torch.rand(num_tokens, num_choices),
        (torch.randn(num_experts, width, 2 * hidden) / width**0.5).to(dtype),
        (torch.randn(num_experts, hidden, width) / hidden**0.5).to(dtype),
    ]
    return tensors, sort_by_expert(experts, num_experts), torch.randn(num_tokens, width).to(dtype)


def mlp_gradients(
    tensors: list[Tensor], permutation: Permutation, dy: Tensor, backend: str, device: str
) -> list[Tensor]:
    leaves = [t.detach().to(device).requires_grad_() for t in tensors]
    moved = Permutation(**{name: value.to(device) for name, value in vars(permutation).items()})
    y = expert_mlp(leaves[0], leaves[1], leaves[2], leaves[3], moved, backend=backend)
    y.backward(dy.to(device))
    return [y.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)]  # type: ignore[union-attr]


ROUTINGS = {
    "spread": lambda: torch.rand(20, 8).topk(2, dim=1).indices,
    "one expert gets nearly all": lambda: torch.tensor([[3, 1]] * 40 + [[0, 3], [3, 5]]),
    "dropped pairs": lambda: torch.tensor([[0, -1], [-1, -1], [2, 1], [7, 2], [-1, 2]]),
    "equal loads": lambda: torch.arange(16).view(8, 2) % 8,
    "one token": lambda: torch.tensor([[6, 2]]),
    "no tokens": lambda: torch.zeros(0, 2, dtype=torch.int64),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("routing", ROUTINGS)
def test_expert_mlp_and_its_gradients(routing: str, dtype: torch.dtype, backend: str, device: str) -> None:
    tensors, permutation, dy = mlp_inputs(ROUTINGS[routing](), 8, dtype)
    actual = mlp_gradients(tensors, permutation, dy, backend, device)
    expected = mlp_gradients([t.double() for t in tensors], permutation, dy.double(), "reference", "cpu")
    for got, want in zip(actual, expected, strict=True):
        close(got, want.to(got.dtype), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("routing", ["spread", "one expert gets nearly all", "dropped pairs", "equal loads"])
def test_expert_mlp_with_transposed_weights(routing: str, dtype: torch.dtype, backend: str, device: str) -> None:
    """As with weights in order."""
    tensors, permutation, dy = mlp_inputs(ROUTINGS[routing](), 8, dtype)
    expected = mlp_gradients([t.double() for t in tensors], permutation, dy.double(), "reference", "cpu")
    tensors[2] = tensors[2].mT.contiguous().mT
    actual = mlp_gradients(tensors, permutation, dy, backend, device)
    for got, want in zip(actual, expected, strict=True):
        close(got, want.to(got.dtype), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_gate_of_a_dropped_pair_does_not_matter(dtype: torch.dtype, backend: str, device: str) -> None:
    experts = ROUTINGS["dropped pairs"]()
    tensors, permutation, dy = mlp_inputs(experts, 8, dtype)
    clean = mlp_gradients(tensors, permutation, dy, backend, device)
    tensors[1][experts < 0] = float("nan")
    for got, want in zip(mlp_gradients(tensors, permutation, dy, backend, device), clean, strict=True):
        assert torch.equal(got, want)
    assert not clean[1].isnan().any()


def test_a_bad_token_changes_no_other_token(backend: str, device: str) -> None:
    tensors, permutation, dy = mlp_inputs(ROUTINGS["dropped pairs"](), 8, torch.bfloat16)
    clean = mlp_gradients(tensors, permutation, dy, backend, device)
    tensors[0][0] = float("nan")
    y, dx = mlp_gradients(tensors, permutation, dy, backend, device)[:2]
    assert y[0].isnan().all()
    assert torch.equal(y[1:], clean[0][1:])
    assert torch.equal(dx[1:], clean[1][1:])


def test_a_token_result_does_not_depend_on_the_other_tokens(backend: str, device: str) -> None:
    tensors, permutation, dy = mlp_inputs(ROUTINGS["spread"](), 8, torch.float32)
    whole = mlp_gradients(tensors, permutation, dy, backend, device)[0]
    experts = torch.empty(20, 2, dtype=torch.int64)
    experts.view(-1)[permutation.pairs] = torch.bucketize(torch.arange(40), permutation.offsets, right=True)
    part = [tensors[0][:7], tensors[1][:7], *tensors[2:]]
    alone = mlp_gradients(part, sort_by_expert(experts[:7], 8), dy[:7], backend, device)[0]
    close(alone, whole[:7], torch.float32)


def test_sorting_is_stable_and_invertible() -> None:
    experts = torch.tensor([[2, 0], [-1, 2], [0, 1]])
    permutation = sort_by_expert(experts, 4)
    assert permutation.offsets.tolist() == [2, 3, 5, 5]
    assert permutation.pairs.tolist() == [1, 4, 5, 0, 3, 2]
    assert permutation.tokens.tolist() == [0, 2, 2, 0, 1, 1]
    assert permutation.rows.view(-1)[permutation.pairs].tolist() == list(range(6))
    with pytest.raises(UserInputError, match="out of range"):
        sort_by_expert(torch.tensor([[4]]), 4)


def test_impossible_calls_say_what_to_do() -> None:
    x, w, offsets = torch.randn(4, 3), torch.randn(2, 3, 5), ends_of([1, 3])
    with pytest.raises(UserInputError, match="do not fit"):
        grouped_gemm(x, w.mT, offsets)
    with pytest.raises(UserInputError, match="int32"):
        grouped_gemm(x, w, offsets.long())
    with pytest.raises(UserInputError, match="ascending"):
        grouped_gemm(x, w, torch.tensor([3, 1], dtype=torch.int32))
    with pytest.raises(UserInputError, match="does not serve float64"):
        grouped_gemm(x.double(), w.double(), offsets, backend="cpu")
    with pytest.raises(UserInputError, match="unknown backend"):
        grouped_gemm(x, w, offsets, backend="cuda")
    assert grouped_gemm(x.double(), w.double(), offsets).dtype == torch.float64
