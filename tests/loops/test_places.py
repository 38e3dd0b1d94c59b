"""What one rank shows: told from its data and code by ranks that exchange places, on worlds that are one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from contracts.enums import CauseKind, DiagnosticKind, Verdict
from contracts.events import Scalar
from loops.debug.experiments import num_processes
from loops.debug.facts import Decision, Experiment, Facts, Identity, Option, Seat, Seen
from loops.debug.measure import Probe, Reading, Window, readings
from loops.debug.places import exchanged, on_rank, place_factor, seat_of
from loops.debug.planner import next_step
from loops.debug.suspects import Scene
from loops.debug.view import SegmentView, make_view

P, A, HALF = Seen.PRESENT, Seen.ABSENT, Seen.PARTIAL
SEAT = Seat(key="place:2", title="the place of rank 2", rank=2, partner=3, bystanders=(0, 1), size=4)
World = Callable[[Experiment], Seen]


def decide(world: World, keys: str = "AB", *, exact: bool = True) -> tuple[Decision, list[Experiment]]:
    """Run what the planner asks for until it decides; all that ran."""
    seen: dict[Identity, Seen] = {}
    ran: list[Experiment] = []
    options = tuple(Option(key=key, title=key, cause_kind=CauseKind.CODE) for key in keys)
    facts = Facts(ranked=options, chronological=tuple(keys), placebos=tuple(keys), seen=seen.get, seat=SEAT)
    for _ in range(12):
        step = next_step(replace(facts, exact=exact if ran else None))
        if isinstance(step, Decision):
            return step, ran
        ran += step
        seen.update({experiment.identity: world(experiment) for experiment in step})
    raise AssertionError("the planner does not come to an end")


def bad_place(experiment: Experiment) -> Seen:
    """Place 2 is slow, whoever is there and whatever the code."""
    return A if experiment.swap == (2, 3) else P


def bad_commit(experiment: Experiment) -> Seen:
    """Commit B slows rank 2, wherever that is."""
    return P if "B" in experiment.on else A


def test_what_goes_with_the_place_is_hardware() -> None:
    """Shows R801-3.4: no commit is blamed for a machine; exchange, control and placebo stand in for revert and add."""
    decision, ran = decide(bad_place)
    assert (decision.verdict, decision.cause_kind, decision.cause) == (
        Verdict.PROVEN,
        CauseKind.HARDWARE,
        ("place:2",),
    )
    assert [each.kind for each in ran] == [
        DiagnosticKind.REPLAY,
        DiagnosticKind.SWAP,
        DiagnosticKind.CONTROL,
        DiagnosticKind.PLACEBO,
    ]


def test_runs_that_scatter_are_replayed_before_a_machine_is_blamed() -> None:
    _, ran = decide(bad_place, exact=False)
    assert sum(each.kind is DiagnosticKind.REPLAY for each in ran) == 3


def test_what_stays_with_the_rank_is_looked_for_among_the_changes() -> None:
    decision, ran = decide(bad_commit)
    assert (decision.verdict, decision.cause_kind, decision.cause) == (Verdict.PROVEN, CauseKind.CODE, ("B",))
    assert any(each.kind is DiagnosticKind.SWAP for each in ran)


def test_without_any_change_what_stays_with_the_rank_cannot_be_told() -> None:
    decision, _ = decide(lambda _: P, keys="")
    assert decision.verdict is Verdict.CANNOT_TELL
    assert "stays with it when it exchanges places with rank 3" in decision.reason


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (lambda e: A if e.swap == (2, 3) or not e.on else P, "both seem to be needed"),
        (lambda e: A if e.swap else P, "not there in each of the other re-runs"),
    ],
)
def test_a_place_that_is_not_alone_is_not_proven(world: World, words: str) -> None:
    """The good code is well in that place; or any exchange cures, so that this one proves nothing."""
    decision, _ = decide(world)
    assert decision.verdict is Verdict.CANNOT_TELL
    assert words in decision.reason


def test_an_exchange_that_shows_it_on_both_or_on_none_decides_nothing() -> None:
    decision, _ = decide(lambda e: HALF if e.swap else P, keys="")
    assert decision.verdict is Verdict.CANNOT_TELL


def scene(**declared: Scalar) -> Scene:
    fields: dict[str, Scalar] = {
        "parallel.processes": True,
        "parallel.dp_size": 4,
        "parallel.cp_size": 1,
        "parallel.places": "0,2,1,3",
    }
    hosts: dict[str, Scalar] = {f"host.place_{place}": f"node-{place}" for place in range(4)}
    segment = SegmentView(
        number=1, start_step=40, last_step=90, code_version="c", declared={**fields, **declared}, environment=hosts
    )
    return Scene(run_id="run", project_id="p", root="c", segment=segment, before=None, factors=())


def probe(rank: int = 2) -> Probe:
    names = [f"step_time_s/computing@rank={r}" for r in range(4)]
    return Probe(
        series=(names[rank],),
        reading=Reading.LOG_OVER_PEERS,
        normal=(0.0,),
        anomalous=(0.7,),
        noise=(0.1,),
        since=50,
        until=90,
        peers=tuple(name for name in names if name != names[rank]),
    )


def test_a_place_is_named_with_its_process_and_machine() -> None:
    """Rank 2 sits in place 1, since ranks 1 and 2 were in each other's place already."""
    found = seat_of(scene(), probe(), probe().series)
    assert found is not None
    assert found.title == "the place of rank 2 (process 2 of 4 on node-1)"
    assert (found.partner, found.bystanders) == (3, (0, 1))
    assert exchanged(scene(), found, (2, 3)) == {"parallel.places": "0,3,1,2"}
    assert place_factor(scene(), found).cause_kind is CauseKind.HARDWARE


def test_every_process_is_paid_for() -> None:
    """A re-run of four processes that was reserved the CPU seconds of one is ended before it can be read."""
    assert num_processes(scene()) == 4
    assert num_processes(scene(**{"parallel.cp_size": 2})) == 8
    assert num_processes(scene(**{"parallel.processes": False})) == 1


@pytest.mark.parametrize(
    "declared",
    [{"parallel.processes": False}, {"parallel.processes": None}, {"parallel.dp_size": 3}, {"parallel.cp_size": 2}],
)
def test_ranks_that_cannot_exchange_places_have_none(declared: dict[str, Scalar]) -> None:
    """Simulated ranks share a machine, and an exchange with its placebo needs three innocent ranks."""
    assert seat_of(scene(**declared), probe(), probe().series) is None


def test_a_rank_is_read_against_its_peers() -> None:
    """A machine that is slower altogether moves nothing."""
    steps = np.arange(1, 41)
    values = {name: np.full(40, 0.3) for name in probe().names}
    values[probe().series[0]] = np.full(40, 0.6)
    view = make_view("run", steps, values)
    found = readings(view, probe(), Window(lo=11, hi=40))
    assert found is not None
    assert found[0] == pytest.approx(np.full(30, np.log(2.0)))
    other = readings(view, on_rank(probe(), 3), Window(lo=11, hi=40))
    assert other is not None
    assert other[0] == pytest.approx(np.zeros(30))
