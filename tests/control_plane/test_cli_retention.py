"""`lathe delete` and `expire`: counted first, asked about, told in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from context_store.records import NewStream
from contracts.errors import NotFound
from contracts.events import Finished, Metrics, encode
from control_plane.settings import Settings
from control_plane.wiring import Lathe

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def command(settings: Settings, lathe: Lathe, run_lathe: Command) -> Command:
    """Runs `lathe ARGUMENTS` on a store with runs `a` and `b` of 50 steps and two statistics."""
    for run in ("a", "b"):
        lathe.store.streams.open(NewStream(id=run, run_id=run, project_id="p", name=run, start=run, wall_time=1.0))
        lines = [Metrics(step=step, values={"loss": 1.0, "lr/group.x": 2.0}) for step in range(1, 51)]
        lathe.store.streams.append(run, 0, b"".join(map(encode, [*lines, Finished(step=50, reason="completed")])))
    return partial(run_lathe, settings.as_environment())


def test_a_run_is_counted_asked_about_and_deleted(command: Command, lathe: Lathe) -> None:
    status, out, _ = command("delete", "a", "--dry-run")
    assert (status, "100" in out, "Nothing was deleted." in out) == (0, True, True)
    status, _, err = command("delete", "a")
    assert (status, "add --yes" in err) == (2, True)
    assert lathe.store.runs.get("a").id == "a"
    status, out, _ = command("delete", "a", "--yes", "--json")
    assert json.loads(out)["removed"][0]["num_points"] == 100
    with pytest.raises(NotFound):
        lathe.store.runs.get("a")
    assert lathe.store.runs.get("b").id == "b"
    (entry,) = lathe.store.ledger.list(subject="run:a")
    assert (entry.action, entry.detail["points"]) == ("run.deleted", 100)
    status, _, err = command("delete", "a", "--yes")
    assert (status, "no run 'a'" in err) == (2, True)


def test_points_expire_and_the_run_stays(command: Command, lathe: Lathe) -> None:
    status, out, err = command("expire", "a", "--statistic", "lr", "--yes", "--json")
    assert status == 0, err
    assert json.loads(out)["removed"][0]["num_points"] == 50
    assert len(lathe.store.series.read("a", "loss").steps) == 50
    assert len(lathe.store.series.read("a", "lr/group.x").steps) == 0
    status, out, _ = command("expire", "--older-than", 0, "--dry-run", "--json")
    assert {each["run_id"] for each in json.loads(out)["removed"]} == {"a", "b"}
    status, out, _ = command("expire", "--older-than", 1000, "--dry-run")
    assert (status, "No run fits." in out) == (0, True)
    for arguments in ((), ("a", "--older-than", 1)):
        assert command("expire", *arguments)[0] == 2
