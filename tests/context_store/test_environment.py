"""Packages, driver, hosts and the rank-to-host map by step. Shows R801-2.2 (infrastructure)."""

from __future__ import annotations

import pytest
from training_log import Training, started, steps

from context_store.environment import RankPlace
from context_store.machine import this_machine
from contracts.enums import TimelineKind
from contracts.errors import NotFound, UserInputError
from contracts.events import Effective

FACTS = {"host": "node-1", "driver": "550.1", "torch": "2.9", "package.einops": "0.8"}


@pytest.fixture
def running(training: Training) -> Training:
    """Two ranks on node-1; from step 31 on the training itself says where the ranks are; resumed at 20 elsewhere."""
    training.log(started(environment=FACTS, dp_size=2), *steps(1, 30))
    moved = {"environment.rank.0.host": "node-1", "environment.rank.1.host": "node-7", "environment.rank.1.device": "3"}
    training.log(Effective(step=31, values=moved), *steps(31, 40))
    training.ship()
    return training


def test_facts_hold_from_their_step_on(running: Training) -> None:
    environment = running.store.environment
    early, late = environment.at("run-1", 30), environment.at("run-1")
    assert early.packages == {"einops": "0.8", "torch": "2.9"}
    assert (early.driver, early.hosts) == ("550.1", ("node-1",))
    assert early.ranks == (RankPlace(rank=0, host="node-1", device=""),), "nobody said where rank 1 is"
    assert late.hosts == ("node-1", "node-7")
    assert late.ranks[1] == RankPlace(rank=1, host="node-7", device="3")


def test_recorded_facts_are_timeline_events_and_stored_once(running: Training) -> None:
    store = running.store
    assert store.environment.record("run-1", 35, {"driver": "560.2", "torch": "2.9", "rank.1.host": "node-7"}) == 1
    assert store.environment.record("run-1", 35, {"driver": "560.2"}) == 0
    assert store.environment.record("run-1", 36, {"cooling": "fan 3 broken"}) == 1
    assert store.environment.at("run-1", 34).driver == "550.1"
    assert store.environment.at("run-1", 35).driver == "560.2"
    events = store.timeline.list("run-1", kinds=[TimelineKind.ENVIRONMENT])
    assert [(event.step, event.title) for event in events] == [
        (35, "effective environment.driver 550.1 -> 560.2"),
        (36, "effective environment.cooling None -> fan 3 broken"),
    ]
    assert "environment.driver" not in {each.key for each in store.config.usage("run-1").mismatches}


def test_a_resume_has_its_own_environment(running: Training) -> None:
    running.log(started(segment=1, start_step=20, environment={"host": "node-9"}, dp_size=1), segment=1)
    running.log(*steps(21, 25), segment=1)
    running.ship()
    assert running.store.environment.at("run-1", 10).hosts == ("node-1",)
    after = running.store.environment.at("run-1", 23)
    assert (after.segment, after.hosts, after.driver) == (1, ("node-9",), "")


@pytest.mark.parametrize(
    ("places", "hosts"), [("", ("node-1", "node-7", "node-8")), ("2,0,1", ("node-7", "node-8", "node-1"))]
)
def test_the_trainers_own_names_say_which_rank_ran_where(
    training: Training, places: str, hosts: tuple[str, ...]
) -> None:
    """As `trainer/segment.py` writes them: `host.place_N` is a machine, `parallel.places` says who sits there."""
    names = ("node-1", "node-7", "node-8")
    facts = {"host": "node-1", **{f"host.place_{place}": name for place, name in enumerate(names)}}
    config = {"parallel.processes": True, "parallel.dp_size": 3, "parallel.places": places}
    training.log(started(environment=facts, config=config, dp_size=3), *steps(1, 5))
    training.ship()
    found = training.store.environment.at("run-1")
    assert found.ranks == tuple(RankPlace(rank=rank, host=host, device="") for rank, host in enumerate(hosts))
    assert found.hosts == ("node-1", "node-7", "node-8")


def test_what_is_not_there_is_named(running: Training) -> None:
    with pytest.raises(NotFound, match="run-9"):
        running.store.environment.at("run-9")
    with pytest.raises(UserInputError, match="no facts"):
        running.store.environment.record("run-1", 1, {})


def test_this_machine_tells_its_packages() -> None:
    facts = this_machine()
    assert facts["host"]
    assert facts["package.sqlalchemy"]
