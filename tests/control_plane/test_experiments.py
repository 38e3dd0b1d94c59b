"""Experiments as a person has them: begun by API or command line, driven by the worker, decided by approvals.

Shows RM2-7.18 and RM2-7.22 on the real worker: outer edges need a recorded approval, inner ones only what is left of
the budget, and both hold when the worker's process is killed again and again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case import CASE, RUN
from fastapi.testclient import TestClient
from small_project import SmallProject, until

from context_store import Store
from context_store.experiments import EDGES, Edge
from context_store.records import Amount
from contracts.enums import InvestigationState, ProposalState, Role, Stage
from contracts.errors import UserInputError
from contracts.events import Finished, SegmentStarted, read_events, segment_folder
from control_plane.api.app import ApiOptions, create_app
from control_plane.experiments import NewExperiment, start, stop
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Worker
from loops.dual import Arm, Question

ARMS = (Arm(name="flatter", overrides={"slope": 0.25}), Arm(name="steeper", overrides={"slope": 1.0}))
PLENTY = Amount(cpu_s=2000.0, wall_s=20_000.0, reruns=40)


def ask(store: Store, amount: Amount = PLENTY, **changes: Any) -> None:
    store.knowledge.set_investigation(CASE, state=InvestigationState.CLOSED)  # it is not what this is about
    fields = {"run_id": RUN, "arms": ARMS, "num_steps": 5, "from_step": 20, **changes}
    wish = NewExperiment(id="x", title="other slopes", question=Question(**fields), amount=amount)
    start(store, wish, "ada", time.time())


def approve_open(store: Store) -> int:
    waiting = store.proposals.list(ProposalState.OPEN)
    for proposal in waiting:
        store.proposals.approve(proposal.id, "bea", Role.REVIEWER, "go", time.time(), proposal.bound_hash)
    return len(waiting)


def work(lathe: Lathe, done: Callable[[], bool]) -> None:
    with Worker(lathe, name="worker-a") as worker:

        def step() -> bool:
            worker.step()
            return done()

        until(step, timeout_s=150)


def begun(lathe: Lathe) -> list[str]:
    """Re-runs that were begun, by their folders."""
    return sorted(folder.name for folder in lathe.settings.runs_folder.glob("rr-*"))


def test_nothing_is_run_before_its_plan_is_approved(lathe: Lathe, bad_run: SmallProject) -> None:
    """The proposal says what would be run; the project's budget holds what the experiment may spend."""
    project = lathe.store.runs.get(RUN).project_id
    allowed = Amount(cpu_s=100.0, wall_s=1e4, reruns=9)
    purse = lathe.store.budgets.allow_project(project, allowed, "root", Role.ADMIN, "this week", 1.0)
    ask(lathe.store)
    work(lathe, lambda: bool(lathe.store.proposals.list(ProposalState.OPEN)))
    (proposal,) = lathe.store.proposals.list(ProposalState.OPEN)
    assert "flatter: slope=0.25; steeper: slope=1.0" in str(proposal.payload["note"])
    assert begun(lathe) == []
    assert lathe.store.budgets.state("experiment:x").left == allowed
    assert lathe.store.budgets.state(purse).left == Amount()
    stop(lathe.store, "x", "ada", "never mind")
    assert lathe.store.experiments.get("x").stage is Stage.ENDED
    assert lathe.store.budgets.state(purse).used == Amount()


def test_it_goes_on_by_itself_between_the_decisions_of_persons(lathe: Lathe, bad_run: SmallProject) -> None:
    ask(lathe.store)
    stages = []

    def over() -> bool:
        now = lathe.store.experiments.get("x")
        if approve_open(lathe.store):
            stages.append((now.stage, now.iteration))
        return now.stage is Stage.ENDED

    work(lathe, over)
    assert stages == [(Stage.PLAN, 1), (Stage.ITERATE, 1), (Stage.PLAN, 2)]
    history = lathe.store.experiments.history("x")
    outer = [step for step in history if EDGES[step.before, step.after] is Edge.OUTER]
    assert [step.actor for step in outer] == ["bea"] * 3
    assert {step.actor for step in history if step not in outer} == {"loop:dual"}
    assert (Stage.ITERATE, Stage.ANALYSE) in [(step.before, step.after) for step in history]
    assert "recommend flatter, further: slope=0.125 (twice as far, too" in history[-1].note
    told = [each.text for each in lathe.store.activity.after(0) if each.kind == "finding"]
    assert any("at step 30: control" in text for text in told), "each analysis is reported"
    (negative,) = lathe.store.negatives.list()
    assert (negative.intervention, dict(negative.context)) == ("re-run from step 20 with slope=1.0", {"slope": 1.0})
    state = lathe.store.budgets.state("experiment:x")
    effects = [each for each in lathe.store.effects.list() if each.key.startswith("experiment:x:")]
    assert state.closed
    assert state.used.reruns == len(effects) == len(begun(lathe)) == 10, (
        "what an earlier iteration has run is not run again"
    )
    assert state.used.cpu_s == pytest.approx(sum(each.result["cpu_s"] for each in effects))


def test_without_budget_it_stops_and_leaves_its_recommendation(lathe: Lathe, bad_run: SmallProject) -> None:
    """Three re-runs fit; to look twice as far would need three more."""
    ask(lathe.store, Amount(cpu_s=2000.0, wall_s=20_000.0, reruns=5))

    def over() -> bool:
        approve_open(lathe.store)
        return any("stops before analyse" in each.text for each in lathe.store.activity.after(0))

    work(lathe, over)
    assert lathe.store.experiments.get("x").stage is Stage.ITERATE
    (text,) = [each.text for each in lathe.store.activity.after(0) if "stops before" in each.text]
    assert "recommend flatter: slope=0.25" in text
    assert len(begun(lathe)) == 3


def test_a_declined_plan_is_not_run(lathe: Lathe, bad_run: SmallProject) -> None:
    ask(lathe.store)
    work(lathe, lambda: bool(lathe.store.proposals.list(ProposalState.OPEN)))
    (proposal,) = lathe.store.proposals.list(ProposalState.OPEN)
    lathe.store.proposals.reject(proposal.id, "bea", Role.REVIEWER, "too costly", time.time())
    with Worker(lathe, name="worker-a", clock=lambda: time.time() + 5) as worker:
        for _ in range(3):
            worker.step()
    assert lathe.store.experiments.history("x") == []
    assert lathe.store.effects.list() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metric": "nothing"}, "no series nothing"),
        ({"from_step": 3}, "no checkpoint at or before step 3"),
        ({"arms": ()}, "arms with names of their own"),
        ({"arms": (Arm(name="control", overrides={"slope": 1.0}),)}, "arms with names of their own"),
    ],
)
def test_what_cannot_be_tried_is_said_at_once(
    lathe: Lathe, bad_run: SmallProject, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserInputError, match=words):
        ask(lathe.store, **changes)
    assert lathe.store.experiments.list() == []


def test_begin_see_and_stop_through_the_api(lathe: Lathe, bad_run: SmallProject) -> None:
    app = create_app(lathe.store, options=ApiOptions(hosts=("testserver",)))
    secret, viewer = (lathe.store.tokens.create(role, role) for role in (Role.RESEARCHER, Role.VIEWER))
    body = {
        "id": "y", "title": "other slopes", "run_id": RUN, "num_steps": 5, "from_step": 20, "cpu_s": 500.0,
        "wall_s": 5000.0, "reruns": 20, "arms": [{"name": "flatter", "overrides": {"slope": 0.25}}],
    }  # fmt: skip
    with TestClient(app, headers={"Authorization": f"Bearer {secret}"}) as api:
        as_viewer = {"Authorization": f"Bearer {viewer}"}
        assert api.post("/api/v1/experiments", json=body, headers=as_viewer).status_code == 403
        made = api.post("/api/v1/experiments", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["plan"]["start_step"] == 20
        assert api.post("/api/v1/experiments", json={**body, "run_id": "none"}).status_code == 404
        work(lathe, lambda: bool(lathe.store.proposals.list(ProposalState.OPEN)))
        assert [each["id"] for each in api.get("/api/v1/experiments").json()["experiments"]] == ["y"]
        stopped = api.post("/api/v1/experiments/y/stop", json={"reason": "enough"}).json()
        assert stopped["experiment"]["stage"] == "ended"
        assert stopped["history"][-1]["note"] == "stopped: enough"
        assert api.get("/api/v1/experiments/y").json()["budget"]["closed"]


def begin_worker(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **settings.as_environment()}
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "control_plane.services.worker"], env=environment, stdout=out, stderr=out
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_worker_passes_no_edge_twice_and_repeats_no_rerun(
    lathe: Lathe, settings: Settings, bad_run: SmallProject, tmp_path: Path
) -> None:
    """The worker's own process, killed at random moments; the witnesses are the run folders and the edges."""
    ask(lathe.store)
    rng, kills = random.Random(7), 0
    worker = begin_worker(settings, tmp_path / "worker.log")
    try:
        kill_at = time.monotonic() + 4.0
        give_up_at = time.monotonic() + 240.0
        while lathe.store.experiments.get("x").stage is not Stage.ENDED:
            assert time.monotonic() < give_up_at, (tmp_path / "worker.log").read_text()
            approve_open(lathe.store)
            if time.monotonic() > kill_at and kills < 8:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                kills += 1
                worker = begin_worker(settings, tmp_path / "worker.log")
                kill_at = time.monotonic() + rng.uniform(2.5, 6.0)
            time.sleep(0.05)
    finally:
        worker.kill()
        worker.wait()
    assert kills >= 4
    history = lathe.store.experiments.history("x")
    assert [step.sequence for step in history] == list(range(len(history)))
    outer = [step for step in history if EDGES[step.before, step.after] is Edge.OUTER]
    used = [each.used_by for p in lathe.store.proposals.list() for each in lathe.store.proposals.approvals(p.id)]
    assert sorted(used) == sorted(f"x:{step.sequence}" for step in outer)
    assert len(outer) == 3
    assert "recommend flatter, further: slope=0.125" in history[-1].note
    assert len(begun(lathe)) == 10
    for run_id in begun(lathe):
        log = segment_folder(lathe.settings.runs_folder / run_id, 0) / "events.log"
        counts = Counter(type(read.event) for read in read_events(log))
        assert (counts[SegmentStarted], counts[Finished]) == (1, 1), run_id
    assert not lathe.store.budgets.state("experiment:x").used.exceeds(lathe.store.budgets.state("experiment:x"))
