"""How a ragged grouped GEMM is carried out on a CPU: a small cost model, and nothing but a function of the loads.

Three ways exist. *Equal* groups are one batched product on views. A *block* gathers the rows of small groups, padded to
a common capacity, into one batched product. *Large* groups are products of their own, in place. The plan never looks
at history or at a clock: the same loads always give the same plan, so a resumed run stays bitwise equal.

Why not simply one product per group: oneDNN builds a primitive for every new bf16 shape (about 1 ms, against 50 us for
a product it knows), and a trained router never repeats its loads. So bf16 row counts are rounded to `step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Costs of one kind of CPU for one dtype, in seconds; measured by `python -m kernels.grouped_gemm.bench --costs`.

    call_s       one product of its own, beyond its arithmetic
    batch_s      one more group in a batched product, beyond its arithmetic
    weight_s     one more weight element read and packed
    flop_s       one multiply-add pair's two operations
    copy_s       one byte copied by a row gather
    step         row counts of separate products are multiples of this
    """

    call_s: float
    batch_s: float
    weight_s: float
    flop_s: float
    copy_s: float
    step: int


AMX_BF16 = Machine(call_s=30e-6, batch_s=1e-6, weight_s=0.12e-9, flop_s=0.9e-12, copy_s=0.08e-9, step=32)
AVX512_BF16 = Machine(call_s=20e-6, batch_s=1e-6, weight_s=0.10e-9, flop_s=2.2e-12, copy_s=0.08e-9, step=32)
PLAIN_BF16 = Machine(call_s=20e-6, batch_s=1e-6, weight_s=0.10e-9, flop_s=15e-12, copy_s=0.08e-9, step=32)
FLOAT32 = Machine(call_s=4e-6, batch_s=1e-6, weight_s=0.05e-9, flop_s=7.5e-12, copy_s=0.08e-9, step=1)


@lru_cache(maxsize=1)
def _bf16_machine() -> Machine:
    if torch.cpu._is_amx_tile_supported():
        return AMX_BF16
    return AVX512_BF16 if torch.cpu._is_avx512_bf16_supported() else PLAIN_BF16


def machine_for(dtype: torch.dtype) -> Machine:
    """Costs on this CPU."""
    return _bf16_machine() if dtype == torch.bfloat16 else FLOAT32


def round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def choose_capacity(loads_E: Ints, inner: int, outer: int, *, itemsize: int, machine: Machine, gathered: bool) -> int:
    """Capacity of the block: groups of at most so many rows go through it, 0 for none.

    Minimises the predicted time of forward, dgrad and wgrad. `gathered`: rows are copied into place anyhow (the fused
    expert MLP), so that a block costs no copies of its own.
    """
    largest = int(loads_E.max(initial=0))
    fine = [c for c in (8, 16) if c >= largest]
    candidates = [0, *fine, *range(machine.step if machine.step > 1 else 16, round_up(max(largest, 1), 32) + 32, 32)]
    weights = inner * outer
    costs = []
    for capacity in candidates:
        large_E = loads_E[loads_E > capacity]
        rows = int(loads_E.sum() - large_E.sum())
        padded_E = -(-large_E // machine.step) * machine.step
        cost = 3 * (len(large_E) * machine.call_s + int(padded_E.sum()) * 2 * weights * machine.flop_s)
        if capacity:
            each = machine.batch_s + weights * (machine.weight_s + 2 * capacity * machine.flop_s)
            cost += 3 * (machine.call_s + len(loads_E) * each)
            moved = 0 if gathered else 2 * (inner + outer) * (rows + len(loads_E) * capacity) * itemsize
            cost += moved * machine.copy_s
        costs.append(cost)
    return candidates[int(np.argmin(costs))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Rows gathered for one batched product of `capacity` rows a group.

    source_R   sorted row of each block row, an arbitrary one at pads
    pads_P     block rows that hold nothing
    rows_S     sorted rows whose result comes from the block, ascending
    places_S   their block rows
    """

    capacity: int
    source_R: Tensor
    pads_P: Tensor
    rows_S: Tensor
    places_S: Tensor


def build_block(starts_E: Ints, counts_E: Ints, capacity: int, *, results_E: NDArray[np.bool_]) -> Block:
    """Gather counts[e] rows from starts[e] for every group; `results_E` marks the groups whose result is used."""
    slots_C = np.arange(capacity)
    real_EC = slots_C < counts_E[:, None]
    source_EC = np.where(real_EC, starts_E[:, None] + slots_C, 0)
    used_EC = real_EC & results_E[:, None]
    return Block(
        capacity=capacity,
        source_R=torch.from_numpy(source_EC.ravel()),
        pads_P=torch.from_numpy(np.flatnonzero(~real_EC)),
        rows_S=torch.from_numpy(source_EC[used_EC]),
        places_S=torch.from_numpy(np.flatnonzero(used_EC)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SortedPlan:
    """A plan on rows that lie sorted in memory and stay there.

    equal         every group has this many rows (0: they differ)
    block         small groups, and of large ones the rows beyond a multiple of step; None: no group needs it
    in_block      results of small groups come from the block (else the block serves wgrad only)
    large         (group, start, stop) of the groups with a product of their own, ascending
    empty         groups without rows, when there is no block to give their wgrad
    num_rows      rows that belong to a group
    """

    equal: int
    block: Block | None
    in_block: bool
    large: tuple[tuple[int, int, int], ...]
    empty: tuple[int, ...]
    num_rows: int
    step: int


@lru_cache(maxsize=64)
def sorted_plan(loads: tuple[int, ...], inner: int, outer: int, dtype: torch.dtype) -> SortedPlan:
    """The plan for [T, inner] x [E, inner, outer]; cached because forward and backward, and layers, share it."""
    machine = machine_for(dtype)
    loads_E = np.array(loads, dtype=np.int64)
    num_rows = int(loads_E.sum())
    equal = loads[0] if loads and len(set(loads)) == 1 else 0
    capacity = 0
    if not equal:
        capacity = choose_capacity(
            loads_E, inner, outer, itemsize=dtype.itemsize, machine=machine, gathered=False
        )
    starts_E = np.concatenate([[0], np.cumsum(loads_E)[:-1]]).astype(np.int64)
    small_E = loads_E <= capacity
    rest_E = np.where(small_E, loads_E, loads_E % machine.step)
    block = None
    if not equal and (capacity or rest_E.any()):
        counted = capacity or machine.step
        block = build_block(starts_E + np.where(small_E, 0, loads_E - rest_E), rest_E, counted, results_E=small_E)
    large = [int(e) for e in np.flatnonzero(~small_E)] if not equal else []
    return SortedPlan(
        equal=equal,
        block=block,
        in_block=capacity > 0,
        large=tuple((e, int(starts_E[e]), int(starts_E[e] + loads_E[e])) for e in large),
        empty=() if block else tuple(int(e) for e in np.flatnonzero(loads_E == 0)),
        num_rows=num_rows,
        step=machine.step,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """A plan on rows gathered into a buffer of their own: the block, then large groups, each padded to `step`.

    block_rows  capacity * groups
    large       (group, start, stop) in buffer rows
    source_R    sorted row of each buffer row, an arbitrary one at pads
    pads_P      buffer rows that hold nothing; the last buffer row is always one
    place_T     buffer row of each sorted row; rows of no group point at the last buffer row
    """

    capacity: int
    block_rows: int
    large: tuple[tuple[int, int, int], ...]
    source_R: Tensor
    pads_P: Tensor
    place_T: Tensor


@lru_cache(maxsize=64)
def buffer_layout(loads: tuple[int, ...], total_rows: int, inner: int, outer: int, dtype: torch.dtype) -> Layout:
    """The layout for an expert MLP of two products with [inner, outer]-sized weights."""
    machine = machine_for(dtype)
    loads_E = np.array(loads, dtype=np.int64)
    capacity = choose_capacity(loads_E, inner, outer, itemsize=dtype.itemsize, machine=machine, gathered=True)
    starts_E = np.concatenate([[0], np.cumsum(loads_E)[:-1]]).astype(np.int64)
    small_E = loads_E <= capacity
    spans_E = np.where(small_E, capacity, -(-loads_E // machine.step) * machine.step)
    places_E = np.where(small_E, np.arange(len(loads_E)) * capacity, 0)
    block_rows = capacity * len(loads_E)
    large, cursor = [], block_rows
    for e in np.flatnonzero(~small_E):
        places_E[e] = cursor
        cursor += int(spans_E[e])
        large.append((int(e), int(places_E[e]), cursor))
    group_T = np.repeat(np.arange(len(loads_E)), loads_E)
    sorted_T = np.arange(len(group_T))
    place_T = np.full(total_rows, cursor, dtype=np.int64)
    place_T[: len(group_T)] = places_E[group_T] + sorted_T - starts_E[group_T]
    source_R = np.full(cursor + 1, -1, dtype=np.int64)
    source_R[place_T[: len(group_T)]] = sorted_T
    return Layout(
        capacity=capacity,
        block_rows=block_rows,
        large=tuple(large),
        source_R=torch.from_numpy(np.maximum(source_R, 0)),
        pads_P=torch.from_numpy(np.flatnonzero(source_R < 0)),
        place_T=torch.from_numpy(place_T),
    )


def loads_of(offsets: Sequence[int]) -> tuple[int, ...]:
    """Rows of each group from cumulative ends."""
    return tuple(b - a for a, b in zip([0, *offsets[:-1]], offsets, strict=True))
