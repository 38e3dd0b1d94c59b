"""How a ragged grouped GEMM is carried out on a CPU: a small cost model, and nothing but a function of the loads.

Four ways exist. *Equal* groups are one batched product on views. A *block* gathers the rows of small groups, padded to
a common capacity, into one batched product. Any other group is a product of its own, by torch or by MKL (mkl.py).
Float32 groups that are not equal are computed as they lie (fp32.py). The plan never looks at
history or at a clock: the same loads always give the same plan, so a resumed run stays bitwise equal.

Why not one torch product per group: oneDNN builds a primitive for every new bf16 shape (1 to 5 ms, against 50 us for a
product it knows), and a trained router never repeats its loads. So bf16 row counts are rounded to `step`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels import mkl
from kernels.grouped_gemm import fp32
from kernels.mkl import Span

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Costs of bf16 products on one kind of CPU, in seconds; fitted to what kernels/grouped_gemm/bench.py prints.

    torch_s, torch_flop_s   a product of its own by torch: per call, per multiplication and addition
    mkl_s, mkl_flop_s       the same by MKL, with the conversion to bf16 per element in mkl_out_s; infinite without MKL
    weight_s, batch_flop_s  a batched product: per weight element of a group, per multiplication and addition
    copy_s                  one element gathered or scattered by rows
    wgrad                   a wgrad's seconds by those of a forward product of the same size
    """

    torch_s: float
    torch_flop_s: float
    mkl_s: float = math.inf
    mkl_flop_s: float = 0.0
    mkl_out_s: float = 0.0
    weight_s: float
    batch_flop_s: float
    copy_s: float
    wgrad: float = 1.0

    @property
    def has_mkl(self) -> bool:
        """Whether products may go to MKL."""
        return self.mkl_s < math.inf

    def separate(self, loads_E: Ints, inner: int, outer: int) -> tuple[NDArray[np.float64], Flags]:
        """Seconds of each group's own forward product, and where MKL is the faster way."""
        flops_E = 2.0 * loads_E * inner * outer
        torch_E = self.torch_s + flops_E * self.torch_flop_s
        mkl_E = self.mkl_s + flops_E * self.mkl_flop_s + loads_E * outer * self.mkl_out_s
        return np.minimum(torch_E, mkl_E), mkl_E < torch_E


AMX = Machine(
    torch_s=45e-6, torch_flop_s=1.1e-12, weight_s=0.28e-9, batch_flop_s=0.95e-12, copy_s=0.24e-9,
    mkl_s=22e-6, mkl_flop_s=1.8e-12, mkl_out_s=0.2e-9, wgrad=1.3,
)  # fmt: skip
AMX_THREADS = Machine(
    torch_s=42e-6, torch_flop_s=1.1e-12, weight_s=0.13e-9, batch_flop_s=0.95e-12, copy_s=0.15e-9,
    mkl_s=18e-6, mkl_flop_s=1.9e-12, mkl_out_s=0.1e-9, wgrad=1.3,
)  # fmt: skip
"""On two threads: products gain little (cores share one AMX unit), what moves memory gains much."""
AVX512_BF16 = Machine(torch_s=20e-6, torch_flop_s=2.2e-12, weight_s=0.1e-9, batch_flop_s=2.2e-12, copy_s=0.2e-9)
NO_BF16 = replace(AVX512_BF16, torch_flop_s=15e-12, batch_flop_s=15e-12)
STEP = 32
LARGEST_STEPPED = 512
"""Capacities are tried in steps of STEP up to this one, and the largest load."""
RUN_ROWS = 1024
RUN_GROUPS = 4
"""Limits of a run: its float32 results should stay in the cache until they are converted."""


@lru_cache(maxsize=8)
def this_machine(threads: int) -> Machine:
    """The costs that hold here."""
    if torch.cpu._is_amx_tile_supported():
        amx = AMX if threads == 1 else AMX_THREADS
        return amx if mkl.bf16_available() else replace(amx, mkl_s=math.inf)
    return AVX512_BF16 if torch.cpu._is_avx512_bf16_supported() else NO_BF16


def round_up(values: Ints, step: int) -> Ints:
    return -(-values // step) * step


def choose_capacity(loads_E: Ints, inner: int, outer: int, machine: Machine, *, gathered: bool) -> int:
    """Capacity of the block: groups of at most so many rows go through it; 0: no block.

    Minimises the predicted time of forward, dgrad and wgrad. `gathered`: rows are copied into place anyhow, so that
    the block costs no copies of its own.
    """
    num_groups, weights = len(loads_E), inner * outer
    separate_E, _ = machine.separate(loads_E, inner, outer)
    separate_E = np.where(loads_E > 0, separate_E, 0.0)
    largest = int(loads_E.max(initial=0))
    tops = {
        8,
        16,
        *range(STEP, min(largest, LARGEST_STEPPED) + STEP, STEP),
        int(round_up(loads_E, STEP).max(initial=STEP)),
    }
    capacity_C = np.array(sorted(tops))
    small_CE = loads_E <= capacity_C[:, None]
    each_C = weights * (machine.weight_s + 2 * capacity_C * machine.batch_flop_s)
    products = 2 + machine.wgrad
    cost_C = products * (np.where(small_CE, 0.0, separate_E).sum(axis=1) + machine.torch_s + num_groups * each_C)
    if not gathered:
        # Rows are gathered and results taken out in both directions; beside separate groups they are scattered too.
        results_C = np.where(small_CE.all(axis=1), 1, 3) * np.where(small_CE, loads_E, 0).sum(axis=1)
        cost_C += (inner + outer) * machine.copy_s * (num_groups * capacity_C + results_C)
    best = int(cost_C.argmin())
    return int(capacity_C[best]) if cost_C[best] < products * float(separate_E.sum()) else 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Rows gathered for one batched product of `capacity` rows a group.

    source   [R] sorted row of each block row, an arbitrary one at pads
    pads     [P] block rows that hold nothing
    rows     [S] sorted rows whose result comes from the block, ascending
    places   [S] their block rows
    """

    capacity: int
    source: Tensor
    pads: Tensor
    rows: Tensor
    places: Tensor


def build_block(starts_E: Ints, counts_E: Ints, capacity: int, *, results_E: Flags) -> Block:
    """Gather counts[e] rows from starts[e] for every group; `results_E` marks the groups whose result is used."""
    slots_C = np.arange(capacity)
    real_EC = slots_C < counts_E[:, None]
    source_EC = np.where(real_EC, starts_E[:, None] + slots_C, 0)
    used_EC = real_EC & results_E[:, None]
    return Block(
        capacity=capacity,
        source=torch.from_numpy(source_EC.ravel()),
        pads=torch.from_numpy(np.flatnonzero(~real_EC)),
        rows=torch.from_numpy(source_EC[used_EC]),
        places=torch.from_numpy(np.flatnonzero(used_EC)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is done with rows that lie sorted by group.

    num_rows     rows that belong to a group
    equal        every group has this many rows (0: they differ)
    float32      groups are computed as they lie (fp32.py)
    batch        then: in one batch, not in torch's loop
    block        None, or the rows of small groups and (without MKL) the rows of the others beyond a multiple of STEP,
                 which wgrad needs there
    block_rows   results of small groups come from the block (else it serves wgrad only)
    by_torch     groups whose rows torch multiplies, each alone, ascending
    by_mkl       runs of neighbouring groups whose rows MKL multiplies
    weights      runs of groups with a wgrad of their own, all but those of the block
    empty        groups without rows, where there is no block to give their wgrad
    exact        such a wgrad takes the group whole (MKL); else in a part from the block and a multiple of STEP
    """

    num_rows: int
    equal: int = 0
    float32: bool = False
    batch: bool = False
    block: Block | None = None
    block_rows: bool = False
    by_torch: tuple[Span, ...] = ()
    by_mkl: tuple[tuple[Span, ...], ...] = ()
    weights: tuple[tuple[Span, ...], ...] = ()
    empty: tuple[int, ...] = ()
    exact: bool = True


@lru_cache(maxsize=64)
def make_plan(
    loads: tuple[int, ...], inner: int, outer: int, dtype: torch.dtype, machine: Machine, threads: int
) -> Plan:
    """The plan for [T, inner] x [E, inner, outer]; cached because forward, backward and layers share it."""
    num_rows = sum(loads)
    if len(set(loads)) == 1 and loads[0]:
        return Plan(num_rows=num_rows, equal=loads[0])
    if dtype != torch.bfloat16:
        return Plan(num_rows=num_rows, float32=True, batch=fp32.in_a_batch(loads, inner, outer, threads))
    loads_E = np.array(loads, dtype=np.int64)
    starts_E = np.cumsum(loads_E) - loads_E
    capacity = choose_capacity(loads_E, inner, outer, machine, gathered=False)
    small_E = loads_E <= capacity
    exact = machine.has_mkl
    rest_E = np.where(small_E, loads_E, 0 if exact else loads_E % STEP)
    block = None
    if capacity or rest_E.any():
        first_E = starts_E + np.where(small_E, 0, loads_E - rest_E)
        block = build_block(first_E, rest_E, max(capacity, 0 if exact else STEP), results_E=small_E)
    _, by_mkl_E = machine.separate(loads_E, inner, outer)
    spans = [Span(e, int(starts_E[e]), int(starts_E[e] + loads_E[e])) for e in np.flatnonzero(~small_E).tolist()]
    return Plan(
        num_rows=num_rows,
        block=block,
        block_rows=capacity > 0,
        by_torch=tuple(span for span in spans if not by_mkl_E[span.group]),
        by_mkl=runs([span for span in spans if by_mkl_E[span.group]], max_rows=RUN_ROWS),
        weights=runs(spans, max_groups=RUN_GROUPS),
        empty=() if block else tuple(np.flatnonzero(loads_E == 0).tolist()),
        exact=exact,
    )


def runs(spans: Sequence[Span], *, max_rows: int = 1 << 40, max_groups: int = 1 << 40) -> tuple[tuple[Span, ...], ...]:
    """Spans in runs of neighbouring groups and rows, so that a run's results are converted to bf16 in one go."""
    out: list[list[Span]] = []
    for span in spans:
        last = out[-1] if out else None
        near = last is not None and last[-1].group + 1 == span.group and last[-1].stop == span.start
        if near and last is not None and span.stop - last[0].start <= max_rows and len(last) < max_groups:
            last.append(span)
        else:
            out.append([span])
    return tuple(tuple(run) for run in out)


def loads_of(offsets_E: Tensor) -> tuple[int, ...]:
    """Rows of each group from cumulative ends."""
    return _differences(tuple(offsets_E.tolist()))


@lru_cache(maxsize=64)
def _differences(ends: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(b - a for a, b in itertools.pairwise((0, *ends)))
