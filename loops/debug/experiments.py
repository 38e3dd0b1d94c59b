"""An experiment of the planner as an effect request: which code, which overrides, from where to where."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from context_store.records import Amount, EffectRequest
from contracts.enums import EffectKind
from contracts.events import Scalar
from loops.core import Request
from loops.debug.case import Case
from loops.debug.facts import Identity, On
from loops.debug.places import exchanged
from loops.debug.small import share_left, smaller
from loops.debug.suspects import Factor, Scene

_START_UP_S = 12.0  # of a training process
_SLACK = 2.0  # a re-run beside others is slower than the recorded run
FRESH_STEPS = 60  # steps of a run from random weights


def request_of(case: Case, identity: Identity, base: str = "") -> Request:
    """The effect of one re-run; its keys follow from the content, so that it is requested and run once."""
    payload = payload_of(case, identity, base)
    effect = EffectRequest(
        key=f"{case.investigation.id}:{payload['run_id']}",
        kind=EffectKind.DIAGNOSTIC_RUN,
        payload=payload,
        investigation_id=case.investigation.id,
        actor="loop:debug",
    )
    return Request(effect=effect, cost=Amount(cpu_s=cost_s(case, identity), reruns=1))


def cost_s(case: Case, identity: Identity) -> float:
    """CPU seconds that a re-run is expected to take at most."""
    scene = _scene(case)
    is_fresh = identity.small or identity.seed is not None
    num_steps = FRESH_STEPS if is_fresh else case.window.hi - scene.segment.start_step
    share = share_left(scene.segment.declared) if identity.small else 1.0
    return (_START_UP_S + _SLACK * _step_time_s(case) * num_steps * share) * num_processes(scene)


def payload_of(case: Case, identity: Identity, base: str = "") -> dict[str, Any]:
    """The payload of `diagnostic_run`, with a run id made of its content.

    `base`: a later commit of the run from which to leave out what is off, in place of the faulty version.
    """
    scene = _scene(case)
    on, without, seed, repeat, swap, small = identity
    fresh = seed is not None or small
    payload: dict[str, Any] = {
        "project_id": case.project_id,
        "source_run_id": case.run_id,
        "source_segment": scene.segment.number,
        "code": without_on(scene, on, base) if base else code_of(scene, on),
        "start_checkpoint": "" if fresh else scene.segment.start_checkpoint,
        "start_step": 0 if fresh else scene.segment.start_step,
        "max_step": FRESH_STEPS if fresh else case.window.hi,
        "overrides": {
            **overrides_of(scene, on, without, fresh=fresh),
            **_exchange(case, swap),
            **(smaller(scene.segment.declared) if small else {}),
        },
        "seed": seed_of(scene, on, without) if seed is None else seed,
        "entry": case.entry,
        **({"repeat": repeat} if repeat else {}),
    }
    text = json.dumps(payload, sort_keys=True)
    return {**payload, "run_id": f"rr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"}


def _exchange(case: Case, swap: tuple[int, int] | None) -> dict[str, Scalar]:
    return exchanged(_scene(case), case.seat, swap) if swap and case.seat else {}


def code_of(scene: Scene, on: On) -> dict[str, Any]:
    """{base, revert, pick} of a set of changes, with as few patches as possible.

    One commit off is always the faulty version without it, because its diff may become the fix.
    """
    chain = [factor.commit.hash for factor in commits_in_order(scene) if factor.commit]
    is_on = [f"commit:{commit}" in on for commit in chain]
    off = [commit for commit, active in zip(chain, is_on, strict=True) if not active]
    length = max(k for k in _prefixes(scene) if all(is_on[:k]))
    picks = [commit for commit, active in zip(chain[length:], is_on[length:], strict=True) if active]
    if len(off) <= 1 or len(off) < len(picks):
        return {"base": scene.faulty, "revert": off, "pick": []}
    base = scene.good if length == _num_earlier(scene) else chain[length - 1] if length else scene.root
    return {"base": base, "revert": [], "pick": picks}


def without_on(scene: Scene, on: On, base: str) -> dict[str, Any]:
    """{base, revert, pick} of `base`, a version after the faulty one, without the commits that are off."""
    chain = [factor.commit.hash for factor in commits_in_order(scene) if factor.commit]
    return {"base": base, "revert": [commit for commit in chain if f"commit:{commit}" not in on], "pick": []}


def seed_of(scene: Scene, on: On, without: On) -> int:
    """The seed in force: that of the onset segment, unless what is off had changed it."""
    off = [f for f in scene.factors if (f.key in without if f.circumstance else f.testable and f.key not in on)]
    earlier = [change.before for factor in off for change in factor.fields if change.key == "seed"]
    return next((before for before in earlier if isinstance(before, int)), scene.segment.seed)


def overrides_of(scene: Scene, on: On, without: On, *, fresh: bool = False) -> Mapping[str, Scalar]:
    """Overrides that undo what is off. A fresh run is started like the first segment, so it is told what is on."""
    overrides: dict[str, Scalar] = {}
    for factor in scene.factors:
        if factor.commit is not None or not factor.testable:
            continue
        is_off = factor.key in without if factor.circumstance else factor.key not in on
        if is_off:
            overrides.update(factor.undo)
        elif fresh:
            overrides.update({change.key: change.after for change in factor.fields})
    return overrides


def commits_in_order(scene: Scene) -> list[Factor]:
    """The commit factors, oldest first."""
    commits = [factor for factor in scene.factors if factor.commit is not None]
    return sorted(commits, key=lambda factor: factor.commit.ordinal if factor.commit else 0)


def _prefixes(scene: Scene) -> list[int]:
    """Lengths k for which "the first k commits" is a version of the history: all, when it is one straight line."""
    chain = [factor.commit for factor in commits_in_order(scene) if factor.commit is not None]
    befores = [scene.root, *(commit.hash for commit in chain)]
    if all(commit.parents == (before,) for commit, before in zip(chain, befores, strict=False)):
        return list(range(len(chain) + 1))
    return [0, _num_earlier(scene)]


def _num_earlier(scene: Scene) -> int:
    return sum(not factor.is_new for factor in scene.factors if factor.commit is not None)


def _scene(case: Case) -> Scene:
    assert case.scene is not None
    return case.scene


def num_processes(scene: Scene) -> int:
    """Each of them starts up, and computes while a step lasts."""
    declared = scene.segment.declared
    sizes = [declared.get(f"parallel.{name}") for name in ("dp_size", "cp_size")]
    return math.prod(size for size in sizes if isinstance(size, int)) if declared.get("parallel.processes") else 1


def _step_time_s(case: Case) -> float:
    _, values = case.view.series("step_time_s")
    return float(np.median(values)) if values.size else 0.5
