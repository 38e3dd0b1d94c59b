"""Healthy trainings of several kinds, really executed, with settings drawn at random; each from where it was left."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from context_store.records import NewRun, Project
from contracts.backend import Launch
from contracts.enums import RunRole
from contracts.events import Scalar
from control_plane.demo.history import History
from control_plane.run_folders import claim_segment, read_launch
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from trainer.checkpoint import load_checkpoint
from trainer.config import TrainConfig
from trainer.corpus import corpus_of
from trainer.held_out import held_out_loss

_FORKED_AT = 80
_EVALUATED, _EVERY = 2048, 10  # bytes, steps


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`first`: the step at which the first segment ends, `last` that of the run (equal: it is never resumed)."""

    name: str
    first: int
    last: int
    overrides: Mapping[str, Scalar]
    new_code: bool = False  # the resume is at a later commit


KINDS = (
    Kind(name="resumed", first=80, last=180, overrides={}, new_code=True),
    Kind(name="whole", first=240, last=240, overrides={}),
    Kind(name="killed", first=95, last=160, overrides={"checkpoint.at_end": False}),
    Kind(name="evaluated", first=160, last=160, overrides={"checkpoint.every": _EVERY}),
    Kind(name="fork", first=140, last=140, overrides={}),
    Kind(
        name="processes",
        first=50,
        last=90,
        overrides={"parallel.processes": True, "parallel.dp_size": 4, "diagnostics.ranks_every": 1},
    ),
)


def kind_of(number: int) -> Kind:
    """Every sixth run is one of four processes."""
    return KINDS[number % len(KINDS)]


def drawn(number: int) -> dict[str, Scalar]:
    """Overrides that a careful person may choose."""
    rng = random.Random(number)
    rate = rng.choice((0.5, 0.7, 1.0, 1.4))
    experts = rng.choice((4, 8, 16))
    return {
        "model.num_layers": rng.choice((4, 6)),
        "moe.num_experts": experts,
        "moe.top_k": rng.choice((1, 2)) if experts == 4 else 2,
        "moe.balance.coef": rng.choice((0.02, 0.05)),
        "optim.attention.lr": 3e-3 * rate,
        "optim.experts.lr": 3e-3 * rate,
        "optim.embedding.lr": 3e-3 * rate,
        "optim.router.optimizer": "adamw",
        "schedule.kind": rng.choice(("constant", "cosine", "linear")),
        "schedule.decay_steps": 1000,
        "data.batch_size": 8,
        "data.mixture.library": rng.choice((0.2, 0.4, 0.6)),
        "parallel.dp_size": rng.choice((1, 2, 4)),
    }


def train(lathe: Lathe, project: Project, history: History, number: int, overrides: Mapping[str, Scalar]) -> str:
    """One run of the kind of its number; the id of the run to be judged."""
    kind = kind_of(number)
    run_id = f"healthy-{kind.name}-{number}"
    request = TrainingRequest(
        run_id=run_id,
        project=project,
        commit=history.early,
        overrides={**overrides, **kind.overrides},
        seed=number,
        max_step=kind.first,
    )
    if _last_step(lathe, run_id) < kind.first:
        _ended(lathe, lathe.trainings.begin(request))
    if kind.first < kind.last and _last_step(lathe, run_id) < kind.last:
        other = {"parallel.dp_size": 4 if overrides.get("parallel.dp_size") == 2 else 2} if number % 4 == 0 else {}
        commit = history.middle if kind.new_code else None
        _ended(lathe, lathe.trainings.go_on(run_id, commit=commit, max_step=kind.last, overrides=other))
    if kind.name == "evaluated":
        evaluate(lathe, run_id, request)
    return fork(lathe, project, run_id, kind.last) if kind.name == "fork" else run_id


def fork(lathe: Lathe, project: Project, parent: str, last_step: int) -> str:
    """A run that goes on from the middle of `parent`, unchanged."""
    run_id = f"{parent}-again"
    folder = Path(lathe.store.runs.get(parent).folder)
    checkpoint = lathe.store.runs.checkpoint_at_or_before(parent, _FORKED_AT)
    assert checkpoint is not None
    if _last_step(lathe, run_id) < last_step:
        own = folder.with_name(run_id)
        launch = replace(read_launch(folder, 0), run_id=run_id, run_folder=str(own), start_checkpoint=checkpoint.path)
        lathe.store.runs.create(
            NewRun(
                id=run_id,
                project_id=project.id,
                name=run_id,
                role=RunRole.TRAINING,
                folder=str(own),
                parent_run_id=parent,
                parent_step=checkpoint.step,
            )
        )
        _ended(lathe, claim_segment(own, f"fork:{parent}", lambda _: launch))
    return run_id


def evaluate(lathe: Lathe, run_id: str, request: TrainingRequest) -> None:
    """Measure the loss on a text behind the training's at each checkpoint, and log it as `eval_loss`."""
    if "eval_loss" in lathe.store.series.names(run_id):
        return
    declared = {key: value for key, value in lathe.store.runs.declared(run_id, 0).items() if value is not None}
    config = TrainConfig().with_overrides({k: v for k, v in declared.items() if k in TrainConfig().flat()})
    text = corpus_of(config.data, config.model.vocab_size).sources[0][-_EVALUATED:].astype(np.uint8)  # bytes
    logged = []
    for step in range(_EVERY, (request.max_step or 0) + 1, _EVERY):
        checkpoint = lathe.store.runs.checkpoint_at_or_before(run_id, step)
        assert checkpoint is not None
        weights = load_checkpoint(Path(checkpoint.path)).weights
        logged.append((step, {"eval_loss": held_out_loss(config, weights, text, config.data.seq_len)}))
    lathe.store.series.append(run_id, logged)


def _last_step(lathe: Lathe, run_id: str) -> int:
    return next((run.last_step for run in lathe.store.runs.list(limit=10_000) if run.id == run_id), 0)


def _ended(lathe: Lathe, launch: Launch) -> None:
    outcome = follow(lathe.backend, lathe.shipper, launch)
    if outcome.reason != "completed":
        raise SystemExit(f"{launch.run_id} did not end: {outcome.message}")
