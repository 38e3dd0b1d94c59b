"""Grouped GEMM and the expert MLP against torch's F.grouped_mm, forward and backward; and against a dense product.

`python -m kernels.grouped_gemm.bench --costs --threads N` prints the costs that plan.py's Machine holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from kernels import mkl
from kernels.grouped_gemm import Permutation, expert_mlp, grouped_gemm, sort_by_expert
from kernels.measure import interleave, require_close, speedup

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
Loads = str | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One shape: loads are "equal", "uniform" (each row to any group), "dirichlet" (0.5), or given."""

    rows: int
    inner: int
    outer: int
    experts: int
    loads: Loads
    dtype: torch.dtype

    @property
    def name(self) -> str:
        loads = self.loads if isinstance(self.loads, str) else "given"
        return f"{str(self.dtype)[6:]} {self.rows}x{self.inner}x{self.outer} E={self.experts} {loads}"


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """x_torch, of_dense: speed against F.grouped_mm and against one dense product, the same loads in every round;
    x_torch_new: against F.grouped_mm with loads drawn anew in every round, as a router's are
    """

    cell: Cell
    x_torch: float
    of_dense: float
    x_torch_new: float | None
    ours_s: float

    def figures(self) -> dict[str, float | None]:
        """All but the cell, as JSON takes them."""
        return {name: value for name, value in vars(self).items() if name != "cell"}


def draw_loads(cell: Cell, seed: int) -> tuple[int, ...]:
    """Rows of each expert."""
    if not isinstance(cell.loads, str):
        return cell.loads
    if cell.loads == "equal":
        return (cell.rows // cell.experts,) * cell.experts
    generator = np.random.default_rng(seed)
    even = np.full(cell.experts, 1 / cell.experts)
    shares = even if cell.loads == "uniform" else generator.dirichlet(np.full(cell.experts, 0.5))
    return tuple(int(n) for n in generator.multinomial(cell.rows, shares))


def ends_of(loads: Sequence[int]) -> Tensor:
    return torch.from_numpy(np.cumsum(loads)).to(torch.int32)


def torch_gemm(x_TK: Tensor, w_EKN: Tensor, offsets_E: Tensor) -> Tensor:
    """The peer."""
    return functional.grouped_mm(x_TK, w_EKN, offs=offsets_E)


Product = Callable[[Tensor, Tensor, Tensor], Tensor]


def step(product: Product, x: Tensor, w: Tensor, offsets: Tensor, dy: Tensor) -> list[Tensor]:
    """Forward and backward: result and both gradients."""
    x.grad = w.grad = None
    y = product(x, w, offsets)
    y.backward(dy)  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert w.grad is not None
    return [y.detach(), x.grad, w.grad]


def measure(cell: Cell, *, rounds: int, new_rounds: int) -> Ratios:
    """Equality first, then the ratios of one cell."""
    torch.manual_seed(0)
    loads = draw_loads(cell, 0)
    x = torch.randn(sum(loads), cell.inner).to(cell.dtype).requires_grad_()
    w = (torch.randn(cell.experts, cell.inner, cell.outer) / cell.inner**0.5).to(cell.dtype).requires_grad_()
    dy, dense = torch.randn(sum(loads), cell.outer).to(cell.dtype), w.detach()[0].clone().requires_grad_()
    offsets = ends_of(loads)
    ours, peer = step(grouped_gemm, x, w, offsets, dy), step(torch_gemm, x, w, offsets, dy)
    require_close(ours, peer, relative=TOLERANCE[cell.dtype])
    candidates = {
        "ours": lambda: step(grouped_gemm, x, w, offsets, dy),
        "torch": lambda: step(torch_gemm, x, w, offsets, dy),
        "dense": lambda: step(lambda a, b, _: a @ b, x, dense, offsets, dy),
    }
    times = interleave(candidates, rounds=rounds)
    return Ratios(
        cell=cell,
        x_torch=speedup(times, "ours", "torch"),
        of_dense=speedup(times, "ours", "dense"),
        x_torch_new=_with_new_loads(cell, x, w, dy, new_rounds),
        ours_s=float(np.median(times["ours"])),
    )


def _with_new_loads(cell: Cell, x: Tensor, w: Tensor, dy: Tensor, rounds: int) -> float | None:
    """Both candidates see the same new loads in each round; None without rounds or with fixed loads."""
    if not rounds or cell.loads not in ("uniform", "dirichlet"):
        return None
    seeds = {"ours": iter(range(1, 10**6)), "torch": iter(range(1, 10**6))}
    candidates = {
        "ours": lambda: step(grouped_gemm, x, w, ends_of(draw_loads(cell, next(seeds["ours"]))), dy),
        "torch": lambda: step(torch_gemm, x, w, ends_of(draw_loads(cell, next(seeds["torch"]))), dy),
    }
    return speedup(interleave(candidates, rounds=rounds, warmup=1), "ours", "torch")


def torch_mlp(x: Tensor, gates: Tensor, w_gate_up: Tensor, w_down: Tensor, permutation: Permutation) -> Tensor:
    """The expert MLP as one writes it with F.grouped_mm."""
    hidden = functional.grouped_mm(x[permutation.tokens], w_gate_up, offs=permutation.offsets)
    gate, up = hidden.chunk(2, dim=-1)
    out = functional.grouped_mm(functional.silu(gate) * up, w_down, offs=permutation.offsets)
    weighted = (out * gates.reshape(-1)[permutation.pairs, None]).to(x.dtype)
    return torch.zeros_like(x).index_add_(0, permutation.tokens, weighted)


def measure_mlp(dtype: torch.dtype, *, tokens: int, choices: int, experts: int, rounds: int) -> float:
    """Speed of the whole expert MLP (256 wide, experts of 96) against torch_mlp, routing drawn anew in every round."""
    torch.manual_seed(0)
    x, dy = torch.randn(tokens, 256).to(dtype).requires_grad_(), torch.randn(tokens, 256).to(dtype)
    gates = torch.rand(tokens, choices).to(dtype).requires_grad_()
    w_gate_up = (torch.randn(experts, 256, 192) / 16).to(dtype).requires_grad_()
    w_down = (torch.randn(experts, 96, 256) / 10).to(dtype).requires_grad_()
    leaves = (x, gates, w_gate_up, w_down)

    def route(seed: int) -> Permutation:
        scores = torch.rand(tokens, experts, generator=torch.Generator().manual_seed(seed))
        return sort_by_expert(scores.topk(choices, dim=1).indices, experts)

    def run(mlp: Callable[..., Tensor], permutation: Permutation) -> list[Tensor]:
        y = mlp(*leaves, permutation)
        return [y.detach(), *torch.autograd.grad(y, leaves, dy)]

    first = route(0)
    require_close(run(expert_mlp, first), run(torch_mlp, first), relative=2 * TOLERANCE[dtype])
    seeds = {"ours": iter(range(1, 10**6)), "torch": iter(range(1, 10**6))}
    candidates = {
        "ours": lambda: run(expert_mlp, route(next(seeds["ours"]))),
        "torch": lambda: run(torch_mlp, route(next(seeds["torch"]))),
    }
    return speedup(interleave(candidates, rounds=rounds), "ours", "torch")


def print_costs() -> None:
    """Seconds of single bf16 products of n rows: by torch, by MKL with conversion, and one of a batch."""
    inner, outer = 256, 192
    for n in (16, 64, 128, 256, 512, 1024):
        batch = max(1, 4096 // n)
        x = torch.randn(batch, n, inner).to(torch.bfloat16)
        w = torch.randn(batch, inner, outer).to(torch.bfloat16)
        out, wide = torch.empty(batch, n, outer, dtype=torch.bfloat16), torch.empty(n, outer)

        def by_torch(x: Tensor = x, w: Tensor = w, out: Tensor = out) -> None:
            for a, b, c in zip(x, w, out, strict=True):
                torch.mm(a, b, out=c)

        def by_mkl(x: Tensor = x, w: Tensor = w, out: Tensor = out, wide: Tensor = wide) -> None:
            for a, b, c in zip(x, w, out, strict=True):
                mkl.product(a, b, wide)
                c.copy_(wide)

        candidates: dict[str, Callable[[], object]] = {"torch": by_torch, "batch": partial(torch.bmm, x, w)}
        if mkl.bf16_available():
            candidates["mkl"] = by_mkl
        best = {name: min(seconds) / batch * 1e6 for name, seconds in interleave(candidates, rounds=15).items()}
        sys.stdout.write(f"n={n}: " + ", ".join(f"{name} {value:.1f} us" for name, value in best.items()) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--costs", action="store_true", help="print the costs of bf16 products on this machine")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.costs:
        print_costs()
        return
    for dtype in TOLERANCE:
        cell = Cell(rows=8192, inner=256, outer=192, experts=32, loads="uniform", dtype=dtype)
        sys.stdout.write(f"{measure(cell, rounds=7, new_rounds=3)}\n")


if __name__ == "__main__":
    main()
