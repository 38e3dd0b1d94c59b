"""The faults that the demo can plant, one entry each.

A fault is one or more commits whose messages look innocent. Adding one is adding an entry to `FAULTS`; its edits must
not touch lines beside those of a harmless commit (a test checks that every commit reverts and picks alone).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from contracts.enums import CauseKind
from contracts.errors import UserInputError
from control_plane.demo.changes import Change, Edit


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`changes(seed)` are its commits; `series` names the statistics in which it shows (R801-3.16 to 3.20)."""

    name: str
    title: str
    cause_kind: CauseKind
    series: tuple[str, ...]
    changes: Callable[[int], tuple[Change, ...]]


def _over_balance(seed: int) -> tuple[Change, ...]:
    return (
        Change(
            subject="balance: count in shares, 1.0 is an equal one",
            body="The load of an expert is easier to read relative to the mean.",
            edits=(
                Edit(
                    path="balance.py",
                    before="    penalty_R = num_experts * (load_RE * probs_RE).sum(dim=-1)\n",
                    after="    share_RE = num_experts * load_RE\n"
                    "    penalty_R = num_experts * (share_RE * probs_RE).sum(dim=-1)\n",
                ),
            ),
        ),
    )


def _layer_skip(seed: int) -> tuple[Change, ...]:
    first, second = sorted(random.Random(f"layers {seed}").sample(range(1, 7), k=2))
    return (
        Change(
            subject="balance: keep less of the graph in memory",
            body="The widest layers hold the probabilities only once.",
            edits=(
                Edit(
                    path="balance.py",
                    before="def shared_load(",
                    after=f"WIDE_LAYERS = ({first}, {second})\n\n\ndef shared_load(",
                ),
                Edit(
                    path="balance.py",
                    before="    probs_RE = probs_RNE.mean(dim=1)\n",
                    after="    if layer in WIDE_LAYERS:\n"
                    "        probs_RNE = probs_RNE.detach()\n"
                    "    probs_RE = probs_RNE.mean(dim=1)\n",
                ),
            ),
        ),
    )


def _router_muon(seed: int) -> tuple[Change, ...]:
    return (
        Change(
            subject="recipe: the router is a matrix like the others",
            body="All matrices are on Muon now.",
            edits=(
                Edit(
                    path="recipe.py",
                    before='            optimizer="adamw",\n            lr=5e-3,\n',
                    after='            optimizer="muon",\n            lr=1e-1,\n',
                ),
            ),
        ),
    )


def _leftover_pages(seed: int) -> tuple[Change, ...]:
    return (
        Change(
            subject="recipe: use the pages that were left over",
            body="The filter was strict; more text is more text.",
            edits=(
                Edit(
                    path="recipe.py",
                    before="        mixture=mixture,\n",
                    after='        mixture=mixture.model_copy(update={"encodings": 3.0}),\n',
                ),
            ),
        ),
    )


def _norm_decay(seed: int) -> tuple[Change, ...]:
    return (
        Change(
            subject="groups: one table row less for what AdamW trains",
            body="The gains have the same optimizer and learning rate as the head.",
            edits=(
                Edit(
                    path="groups.py",
                    before='    if is_norm(name):\n        return "norm"\n',
                    after='    if is_norm(name):\n        return "head"\n',
                ),
            ),
        ),
    )


def _loader_order(seed: int) -> tuple[Change, ...]:
    return (
        Change(
            subject="loader: one constant for the number of devices",
            body="The launcher gives us four; no need to pass it around.",
            edits=(
                Edit(
                    path="loader.py",
                    before="def rank_positions(",
                    after="NUM_DEVICES = 4\n\n\ndef rank_positions(",
                ),
                Edit(
                    path="loader.py",
                    before="    positions = start + rank + turns * config.dp_size\n",
                    after="    positions = start + rank + turns * NUM_DEVICES\n",
                ),
            ),
        ),
    )


def _interaction(seed: int) -> tuple[Change, ...]:
    no_decay = Change(
        subject="groups: the router is not decayed either",
        body="It moves to the group that has no weight decay, with the same learning rate.",
        edits=(
            Edit(
                path="groups.py",
                before='    if is_router(name):\n        return "router"\n',
                after='    if is_router(name):\n        return "bias"\n',
            ),
        ),
    )
    fast_bias = Change(
        subject="recipe: biases may move faster",
        body="We have none yet; the next model will.",
        edits=(
            Edit(
                path="recipe.py",
                before="        bias=GroupConfig(\n            lr=5e-3,\n",
                after="        bias=GroupConfig(\n            lr=1e-1,\n",
            ),
        ),
    )
    return (no_decay, fast_bias) if random.Random(f"pair {seed}").random() < 0.5 else (fast_bias, no_decay)


FAULTS = (
    Fault(
        name="over_balance",
        title="the balance penalty is scaled by the number of experts twice",
        cause_kind=CauseKind.CODE,
        series=("balance_loss", "aux_loss_share", "max_vio"),
        changes=_over_balance,
    ),
    Fault(
        name="layer_skip",
        title="two layers get no gradient from the balance penalty while the overall value looks healthy",
        cause_kind=CauseKind.CODE,
        series=("max_vio/layers.I", "expert_load/layers.I/experts.J"),
        changes=_layer_skip,
    ),
    Fault(
        name="router_muon",
        title="the router moved from AdamW to Muon with a far too large learning rate",
        cause_kind=CauseKind.CONFIG,
        series=("grad_norm/layers.I.router", "weight_norm/layers.I.router", "router_logit_std/layers.I", "max_vio"),
        changes=_router_muon,
    ),
    Fault(
        name="leftover_pages",
        title="pages of low quality, tables of characters, flood the data",
        cause_kind=CauseKind.DATA,
        series=("mixture/source.encodings",),
        changes=_leftover_pages,
    ),
    Fault(
        name="norm_decay",
        title="the gains of the norms are decayed",
        cause_kind=CauseKind.CODE,
        series=("weight_norm/layers.I.norm", "router_logit_std/layers.I"),
        changes=_norm_decay,
    ),
    Fault(
        name="loader_order",
        title="after a resume with another data-parallel size some samples are read twice and others never",
        cause_kind=CauseKind.RESUME,
        series=("repeated_samples",),
        changes=_loader_order,
    ),
    Fault(
        name="interaction",
        title="two harmless commits that together train the router twenty times too fast",
        cause_kind=CauseKind.INTERACTION,
        series=("router_logit_std/layers.I", "max_vio"),
        changes=_interaction,
    ),
)

HEALTHY = Fault(
    name="healthy",
    title="nothing is wrong",
    cause_kind=CauseKind.NONE,
    series=(),
    changes=lambda seed: (),
)


def find_fault(name: str) -> Fault:
    """The entry called `name`. Raises UserInputError that lists the names."""
    for fault in (*FAULTS, HEALTHY):
        if fault.name == name:
            return fault
    raise UserInputError(
        f"there is no fault '{name}'", remedy="choose one of: " + ", ".join(fault.name for fault in FAULTS)
    )
