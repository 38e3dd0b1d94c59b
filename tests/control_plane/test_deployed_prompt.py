"""Option A from its tuning to its use in real processes: the prompt that was optimised is the one that is sent,
exported, approved, deployed, asked and taken back."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_classifiers import CASE, rows, state, texts, undo, work

from contracts.enums import InvestigationState, Role
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from loops.quantify.casebook import CaseBook
from loops.quantify.deployment import current

sys.path.append(str(Path(__file__).parents[1] / "agents"))

from scripted_server import ScriptedServer, Turn

_OFFERS = {"win", "free", "prize", "cash", "urgent", "bonus", "cheap", "deal", "winner", "credit"}
_AWAY = range(30, 34)  # requests that find no model: as many as the door tries
LATER = "classifier-offers-2"


class Labeller:
    """Misses offers with one word until its prompt shows such a text, and is away for a while."""

    def __init__(self) -> None:
        self.num = 0

    def __call__(self, body: Any) -> Turn:
        self.num += 1
        if self.num in _AWAY:
            return Turn(status=503, message="overloaded")
        instructions, text = (str(message["content"]) for message in body["messages"][:2])
        words = set(text.split())
        is_offer = bool(words & _OFFERS) and ("winner" not in words or "winner" in instructions)
        return Turn(text="offer" if is_offer else "letter")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Labeller()) as opened:
        yield opened


@pytest.fixture
def settings(tmp_path: Path, database_url: str, server: ScriptedServer) -> Settings:
    return Settings(
        home=tmp_path / "home", database_url=database_url, backend="local", num_cpus=2, cancel_grace_s=5,
        model="openai/scripted", api_base=f"{server.url}/v1",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_optimised_prompt_is_the_one_that_is_sent_deployed_asked_and_taken_back(
    lathe: Lathe, settings: Settings, server: ScriptedServer, tmp_path: Path,
    run_lathe: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Shows R801-5.3, option A: byte for byte the same prompt in every place."""
    texts(tmp_path, rows(240))

    def run(*arguments: object, lines: list[dict[str, str]] | None = None) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(json.dumps, lines or []))))
        status, said, told = run_lathe(settings.as_environment(), "classifier", *arguments)
        assert status == 0, told
        return said + told

    new = ("new", "offers", "--need", "Find offers.", "--documents", tmp_path / "texts.jsonl", "--classes",
           "offer,letter", "--evaluation", 30, "--first", 60, "--per-round", 40, "--budget", 60)  # fmt: skip
    run(*new, "--versions", 1, "--labellers", "given,model", "--option", "prompt")
    over = (InvestigationState.WAITING_FOR_APPROVAL, InvestigationState.CLOSED)
    work(lathe, lambda: state(lathe) in over, 300.0)
    book = CaseBook(lathe.store, CASE, 0.0)
    (proposal,) = lathe.store.proposals.list()
    assert (proposal.payload["option"], proposal.payload["model"]) == ("prompt", "openai/scripted")
    run("prompt", "offers", tmp_path / "prompt.txt")
    optimised = (tmp_path / "prompt.txt").read_bytes()
    assert b"winner" in optimised  # it is not the first one
    sent = [str(body["messages"][0]["content"]).encode() for body in server.requests]
    num_labels = sum(len(book.batches()[name]["items"]) for name in ("evaluation", "held_out", "train-1"))
    assert set(sent[-(num_labels - 30) :]) == {optimised}  # those of the evaluation set it had given while tuned
    lathe.store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "go", time.time(), proposal.bound_hash)
    work(lathe, lambda: state(lathe) is InvestigationState.CLOSED)
    deployed = current(settings.classifiers_folder, "offers")
    assert deployed is not None, lathe.store.effects.get(f"apply:{proposal.id}").message
    assert (deployed.folder / "prompt.txt").read_bytes() == optimised
    card = (deployed.folder / "card.md").read_text()
    assert "Deployed here: the labelling prompt" in card
    assert "System message for openai/scripted" in card
    _is_used(run, server, optimised, tmp_path)
    other = run_lathe({**settings.as_environment(), "LATHE_MODEL": "openai/other"}, "classifier", "score", "offers")
    assert (other[0], "was approved with openai/scripted" in other[2]) == (2, True)
    _judges_a_later_case(lathe, run, new, deployed.payload.sha256)
    undo(lathe, f"apply:{proposal.id}")
    assert current(settings.classifiers_folder, "offers") is None


def _is_used(run: Callable[..., str], server: ScriptedServer, prompt: bytes, folder: Path) -> None:
    unseen = rows(12, seed=4, labelled=False)
    before = len(server.requests)
    said = [json.loads(line) for line in run("score", "offers", lines=unseen).splitlines() if line.startswith("{")]
    assert [each["is_positive"] for each in said] == [number % 3 == 0 for number in range(12)]
    assert {str(body["messages"][0]["content"]).encode() for body in server.requests[before:]} == {prompt}
    assert "4 kept, 8 dropped" in run("filter", "offers", lines=unseen)
    texts(folder, rows(60, seed=5, labelled=False), "recent.jsonl")
    assert "offers prompt: no drift" in run("drift", "offers", folder / "recent.jsonl")
    assert "offers prompt: no drift" in run("show", CASE)  # on the card from then on


def _judges_a_later_case(lathe: Lathe, run: Callable[..., str], new: tuple[object, ...], sha256: str) -> None:
    """What is deployed is a prompt: it is measured first, and a classifier has to be better than it."""
    run(*new, "--versions", 1, "--labellers", "given")
    over = (InvestigationState.WAITING_FOR_APPROVAL, InvestigationState.CLOSED)
    work(lathe, lambda: state(lathe, LATER) in over, 300.0)
    book = CaseBook(lathe.store, LATER, 0.0)
    first, second = book.versions()
    assert (first["number"], first["sha256"], first["decision"]["is_taken"]) == (0, sha256, True)
    assert first["evaluation"]["accuracy"]["value"] == 1.0
    assert not second["decision"]["is_taken"]
    assert state(lathe, LATER) is InvestigationState.CLOSED
