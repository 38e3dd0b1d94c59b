"""The CPU plan of grouped GEMM: a function of the loads, right on every kind of machine, whichever way groups go."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm import cpu, fp32, grouped_gemm, layout, reference
from kernels.grouped_gemm.plan import AMX, AVX512_BF16, STEP, Machine, make_plan

MACHINES = {
    "no mkl": AVX512_BF16,
    "blocks cost nothing": Machine(torch_s=1.0, torch_flop_s=0, weight_s=0, batch_flop_s=0, copy_s=0),
    "blocks cost everything": Machine(torch_s=0, torch_flop_s=0, weight_s=1.0, batch_flop_s=0, copy_s=0),
}
if mkl.bf16_available():
    MACHINES["mkl"] = AMX
    MACHINES["all by mkl"] = Machine(torch_s=9, torch_flop_s=0, weight_s=9, batch_flop_s=0, copy_s=0, mkl_s=0)
LOADS = [(3, 0, 70, 130, 1, 64), (200, 33), (5, 4, 3, 2, 1), (0, 0, 96), (31, 1, 32, 33), (2, 1100, 512)]


def inputs(loads: tuple[int, ...], tail: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = sum(loads) + tail
    x, w, dy = torch.randn(rows, 24), torch.randn(len(loads), 24, 16), torch.randn(rows, 16)
    return *(t.to(torch.bfloat16) for t in (x, w, dy)), torch.tensor(loads).cumsum(0).to(torch.int32)  # type: ignore[return-value]


def expected(x: Tensor, w: Tensor, dy: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, b = x.double().requires_grad_(), w.double().requires_grad_()
    y = reference.grouped_gemm(a, b, offsets)
    return (y.detach(), *torch.autograd.grad(y, (a, b), dy.double()))


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-2 * float(want.abs().max()) + 1e-30)


@pytest.mark.parametrize("tail", [0, 7])
@pytest.mark.parametrize("loads", LOADS, ids=str)
@pytest.mark.parametrize("machine", MACHINES)
def test_products_in_place(machine: str, loads: tuple[int, ...], tail: int) -> None:
    x, w, dy, offsets = inputs(loads, tail)
    plan = make_plan(loads, 24, 16, torch.bfloat16, MACHINES[machine], 1)
    y, x_block = cpu.row_products(x, w, plan, offsets)
    dx, dy_block = cpu.row_products(dy, w.mT, plan, offsets)
    dw = cpu.weight_products(x, dy, plan, offsets, (x_block, dy_block))
    for got, want in zip((y, dx, dw), expected(x, w, dy, offsets), strict=True):
        close(got, want)


@pytest.mark.parametrize("loads", LOADS, ids=str)
@pytest.mark.parametrize("machine", MACHINES)
def test_products_in_a_buffer(machine: str, loads: tuple[int, ...]) -> None:
    x, w, dy, offsets = inputs(loads, 2)
    plan = layout.make_layout(loads, len(x), 24, 16, torch.bfloat16, MACHINES[machine], 1)
    buffers = [t.index_select(0, plan.source).index_fill_(0, plan.pads, 0) for t in (x, dy)]
    y = layout.products(buffers[0], w, plan, offsets)[plan.place]
    dx = layout.products(buffers[1], w.mT, plan, offsets)[plan.place]
    dw = layout.weight_products(*buffers, plan, offsets)
    for got, want in zip((y, dx, dw), expected(x, w, dy, offsets), strict=True):
        close(got, want)


@pytest.mark.parametrize("batch", [False, *([True] if mkl.batch_available() else [])])
@pytest.mark.parametrize("sizes", [(24, 16), (7, 5)], ids=str)
@pytest.mark.parametrize("loads", LOADS, ids=str)
def test_float32_in_a_loop_and_in_a_batch(loads: tuple[int, ...], sizes: tuple[int, int], batch: bool) -> None:
    torch.set_num_threads(2)
    x, dy, offsets = torch.randn(sum(loads), sizes[0]), torch.randn(sum(loads), sizes[1]), inputs(loads, 0)[3]
    w = torch.randn(len(loads), *sizes)
    got = (
        fp32.row_products(x, w, offsets, batch=batch),
        fp32.row_products(dy, w.mT, offsets, batch=batch),
        fp32.weight_products(x, dy, offsets, batch=batch),
    )
    for mine, theirs in zip(got, expected(x, w, dy, offsets), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-4)


def test_machines_choose_different_ways() -> None:
    loads = (3, 0, 70, 130, 1, 64)
    plans = {name: make_plan(loads, 24, 16, torch.bfloat16, machine, 1) for name, machine in MACHINES.items()}
    assert plans["blocks cost nothing"].block_rows
    assert not plans["blocks cost nothing"].weights
    alone = plans["blocks cost everything"]
    assert not alone.block_rows
    assert [span.group for span in alone.by_torch] == [0, 2, 3, 4, 5]
    assert alone.block is not None
    assert alone.block.capacity == STEP
    assert not alone.exact
    assert make_plan((4, 4), 24, 16, torch.bfloat16, AVX512_BF16, 1).equal == 4
    assert make_plan((4, 5), 24, 16, torch.float32, AVX512_BF16, 1).float32


def test_a_batch_is_for_several_threads_and_small_groups() -> None:
    able = mkl.batch_available()
    assert not fp32.in_a_batch((10, 20), 24, 16, threads=1)
    assert fp32.in_a_batch((10, 20), 24, 16, threads=2) == able
    assert not fp32.in_a_batch((10, 2000), 256, 192, threads=2)
    assert not fp32.in_a_batch((0, 0), 256, 192, threads=2)


def test_a_sum_can_be_differentiated() -> None:
    """Its gradient is an expanded tensor, which torch's grouped_mm refuses."""
    x, w = torch.randn(9, 8, requires_grad=True), torch.randn(2, 8, 4, requires_grad=True)
    grouped_gemm(x, w, torch.tensor([5, 9], dtype=torch.int32), backend="cpu").sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad[0], w.detach()[0].sum(dim=1))


def test_runs_are_of_neighbours_and_bounded() -> None:
    machine = Machine(torch_s=9, torch_flop_s=0, weight_s=9, batch_flop_s=0, copy_s=0, mkl_s=0)
    plan = make_plan((1000, 20, 10, 0, 5, 6, 7, 8, 9), 24, 16, torch.bfloat16, machine, 1)
    assert [[span.group for span in run] for run in plan.by_mkl] == [[0, 1], [2], [4, 5, 6, 7, 8]]
    assert [[span.group for span in run] for run in plan.weights] == [[0, 1, 2], [4, 5, 6, 7], [8]]
    assert plan.empty == (3,)
