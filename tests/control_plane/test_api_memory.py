"""What is joined, ranked and owned, over HTTP. Shows R801-2.7 (links) and R801-2.10 (what is left out is said)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_store import Store
from context_store.records import NewRun, NewScore, Project, TimelineEvent
from contracts.enums import Role, RunRole, TimelineKind
from contracts.events import Metrics, SegmentStarted, encode, segment_folder
from control_plane.api.app import create_app
from loops.debug.topics import TOPICS


class Asker:
    def __init__(self, store: Store) -> None:
        self.http = TestClient(create_app(store), base_url="http://127.0.0.1", raise_server_exceptions=False)
        self.http.headers["Authorization"] = f"Bearer {store.tokens.create('grace', Role.RESEARCHER)}"

    def __call__(self, path: str, status: int = 200, **asked: object) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/{path}", params=asked)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def ask(store: Store) -> Asker:
    return Asker(store)


@pytest.fixture
def linked(store: Store, tmp_path: Path) -> str:
    """Project `p` with one commit that reads moe.balance.coef, and a run with max_vio; returns the commit."""
    repository = tmp_path / "p"
    repository.mkdir()
    (repository / "balance.py").write_text("def penalty(config):\n    return config.moe.balance.coef\n")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "balance"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    store.projects.put(Project(id="p", path=str(repository)))
    store.runs.create(NewRun(id="r", project_id="p", name="r", role=RunRole.TRAINING, folder=str(tmp_path / "r")))
    begun = SegmentStarted(
        run_id="r", segment=0, start_step=0, code_version=head, seed=1, dp_size=1, start_checkpoint="",
        config={"moe.balance.coef": 0.01}, environment={}, wall_time=1.0,
    )  # fmt: skip
    log = segment_folder(tmp_path / "r", 0) / "events.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(map(encode, (begun, Metrics(step=1, values={"max_vio/layers.3": 1.0})))))
    store.ingest.ship("r", tmp_path / "r")
    store.code.ingest("p", repository)
    store.links.link("p", repository, TOPICS)
    return head


def test_the_chain_of_code_field_and_statistic_can_be_asked_from_each_end(ask: Asker, linked: str) -> None:
    for asked in ({"commit": linked}, {"series": "max_vio/layers.3"}, {"field": "moe.balance.coef"}):
        links = [each for each in ask("projects/p/links", **asked)["links"] if each["field"]]
        assert [(each["commit"], each["path"]) for each in links] == [(linked, "balance.py")], asked
        assert (links[0]["field"], links[0]["statistic"]) == ("moe.balance.coef", "max_vio/layers.*")
        assert links[0]["how"].startswith("a changed line reads config.moe.balance.coef")
    first = ask("projects/p/links", commit=linked, limit=1)
    assert len(first["links"]) == 1
    assert ask("projects/p/links", commit=linked, limit=1, after=first["next"])["links"] != first["links"]
    assert "name one" in ask("projects/p/links", 400)["remedy"]
    ask("projects/q/links", 404, field="x")


def test_code_is_found_by_the_run_and_the_field(ask: Asker, linked: str) -> None:
    for asked in ({"run_id": "r"}, {"field": "moe.balance"}, {"run_id": "r", "lo": 0, "hi": 0}):
        found = ask("search", q="balance penalty", kind="hunk", **asked)["hits"]
        assert [each["reference"] for each in found] == [f"hunk:{linked[:12]}/balance.py#1..3"], asked
    assert ask("search", q="balance penalty", kind="hunk", run_id="r", lo=1)["hits"] == []


def test_a_rank_says_what_it_leaves_out_and_what_stands_apart(ask: Asker, store: Store, linked: str) -> None:
    detail = {"checkpoint": "", "benchmarks": {"arc": 2}}
    title = "2 scores without lineage are not ranked: the log names no checkpoint"
    note = TimelineEvent(run_id="r", segment=0, step=0, kind=TimelineKind.NOTE, title=title, detail=detail)
    store.timeline.add(note)
    for shots, value in ((5, 0.5), (5, 0.6), (0, 0.9)):
        store.evals.add(
            NewScore(
                project_id="p", run_id="r", segment=0, step=1, checkpoint=store.projects.get("p").path, recipe=linked,
                benchmark="arc", metric="acc", protocol="few-shot", shots=shots, harness="own", harness_version="1",
                value=value, owner="a",
            )
        )  # fmt: skip
    found = ask("evals/rank", benchmark="arc")
    assert [len(each["scores"]) for each in found["rankings"]] == [2, 1]
    assert "shots is 5 in one and 0 in the other" in found["rankings"][1]["apart"]
    assert found["left_out"] == [{"run_id": "r", "count": 2, "reason": "the log names no checkpoint"}]


def test_a_stream_is_owned_by_whose_token_opened_it(ask: Asker, store: Store) -> None:
    wish = {"id": "s", "run_id": "remote", "project_id": "q", "start": "1", "wall_time": 1.0}
    assert ask.http.post("/api/v1/ingest/streams", json=wish).status_code == 200
    assert (store.runs.get("remote").owner, store.projects.get("q").owner) == ("grace", "grace")
    assert ask("runs/remote")["run"]["owner"] == "grace"
