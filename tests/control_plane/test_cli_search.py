"""`lathe search`, `negatives`, `redactions` and `mlflow`: real commands on a real store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from context_store.records import NewRun, Project, TimelineEvent
from contracts.enums import RunRole, TimelineKind
from control_plane.settings import Settings
from control_plane.wiring import Lathe

Command = Callable[..., Any]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedder": "hashed"})


@pytest.fixture
def command(settings: Settings, run_lathe: Command) -> Command:
    """Runs `lathe ARGUMENTS`; JSON is read, other output comes as text, errors as their message."""

    def run(*arguments: object) -> Any:
        status, out, err = run_lathe(settings.as_environment(), *arguments)
        if status:
            return err
        return json.loads(out.splitlines()[-1]) if "--json" in arguments else out

    return run


@pytest.fixture
def history(lathe: Lathe) -> None:
    lathe.store.projects.put(Project(id="p", path="/p"))
    run = NewRun(id="run-1", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere")
    lathe.store.runs.create(run)
    for step, key in ((100, "optim.router.lr"), (900, "optim.head.lr")):
        title = f"{key} 0.01 -> 0.02"
        event = TimelineEvent(
            run_id="run-1", segment=0, step=step, kind=TimelineKind.CONFIG, title=title, detail={"key": key}
        )
        lathe.store.timeline.add(event)


ADD = (
    "negatives", "add", "--claim", "optim.router.lr 0.02 helps", "--intervention", "optim.router.lr 0.01 to 0.02",
    "--observed", "mail bob@example.org", "--reason", "within the seed spread", "--evidence", "run:run-1",
)  # fmt: skip


@pytest.mark.usefixtures("history")
def test_search_finds_filters_and_says_where(command: Command) -> None:
    hits = command("search", "router learning rate lr", "--json")
    assert hits[0]["title"] == "optim.router.lr 0.01 -> 0.02"
    assert hits[0]["reference"].startswith("event:")
    assert hits[0]["by_meaning"] == 1, "its vector was made by this very command"
    (only,) = command("search", "lr", "--from-step", 500, "--json")
    assert only["title"].startswith("optim.head.lr")
    assert command("search", "lr", "--field", "optim.head", "--kind", "change", "--json") == [
        {**only, "score": pytest.approx(only["score"], abs=0.1)}
    ]
    text = command("search", "router lr")
    assert "run-1  step 100" in text
    assert "choose of hunk, change" in command("search", "x", "--kind", "nonsense")
    assert "Nothing like this is stored." in command("search", "lr", "--run", "run-2")


@pytest.mark.usefixtures("history")
def test_negatives_are_found_by_the_parts_of_their_names_and_shown_with_what_is_like_them(command: Command) -> None:
    first = command(*ADD, "--scale", "d12", "--json")
    assert first["observed"] == "mail [redacted email]"
    (found,) = command("negatives", "search", "router lr", "--json")
    assert found["negative"]["id"] == first["id"]
    assert command("negatives", "search", "tokenizer", "--json") == []
    text = command(*ADD, "--scale", "d20")
    assert f"the same words and numbers: #{first['id']}" in text
    shown = command("negatives", "show", first["id"], "--json")
    assert [each["negative"]["scale"] for each in shown["duplicates"]] == ["d20"]
    newer = shown["duplicates"][0]["negative"]["id"]
    assert command("negatives", "supersede", first["id"], "--by", newer, "--json")["superseded_by"] == newer
    assert f"superseded by #{newer}" in command("negatives", "show", first["id"])
    assert "no negative result 99" in command("negatives", "show", 99)
    without = command("negatives", "add", *ADD[2:-1], "", "--json")
    assert "is not an evidence reference" in without


@pytest.mark.usefixtures("history")
def test_negatives_with_measured_effects_contradict_each_other(command: Command) -> None:
    """Shows R801-2.5: effect and uncertainty come in through the command, and intervals apart are shown."""
    first = command(*ADD, "--effect", "val_bpb=0.001,0,0.002 bits per byte, lower is better", "--json")
    unit = "bits per byte, lower is better"
    assert first["observed_effect"] == {"what": "val_bpb", "value": 0.001, "lo": 0.0, "hi": 0.002, "unit": unit}
    other = (*ADD, "--effect", f"val_bpb=-0.004,-0.005,-0.003 {unit}", "--expected-effect", "val_bpb=-0.002")
    second = command(*other, "--json")
    assert second["expected_effect"] == {"what": "val_bpb", "value": -0.002, "lo": None, "hi": None, "unit": ""}
    shown = command("negatives", "show", first["id"])
    assert f"against it: negative:{second['id']} measured val_bpb -0.004 (-0.005 to -0.003)" in " ".join(shown.split())
    for wrong in ("val_bpb", "=1", "a=b", "a=1,2", "a=nan", "a=1,2,3,4"):
        assert "no effect" in command(*ADD, "--effect", wrong)


@pytest.mark.usefixtures("history")
def test_what_was_redacted_is_reported(command: Command) -> None:
    assert "Nothing was redacted." in command("redactions")
    command(*ADD, "--project", "p")
    (row,) = command("redactions", "--json")
    assert row == {"where": "negative_result.observed", "owner": "p", "kind": "email", "count": 1}


@pytest.mark.usefixtures("history")
def test_mlflow_has_to_be_named(command: Command) -> None:
    assert "set LATHE_MLFLOW_URI" in command("mlflow", "run-1")
