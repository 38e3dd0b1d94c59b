"""A classifier's case in processes that are killed: after each step of the graph, and in the middle of its work."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from needs import CASE, NOW, documents, lines, need, open_case
from psycopg.rows import dict_row

from agents.llm import Price
from context_store import Store, open_store
from contracts.enums import EffectKind, Role
from loops.core import Workplace
from loops.quantify.casebook import CaseBook
from loops.quantify.loop import ClassifierLoop
from loops.quantify.need import Labeller
from loops.quantify.work import WORK
from loops.runner import CaseStatus, Runner

sys.path.append(str(Path(__file__).parents[2] / "agents"))

from scripted_server import ScriptedServer, Turn


class DyingSaver(PostgresSaver):
    """Saves three checkpoints and kills its process, as SIGKILL would, when the next is to be saved."""

    saved: ClassVar[list[int]] = []  # of the process: LangGraph works on copies of a saver

    def put(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        if len(self.saved) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        self.saved.append(1)
        return super().put(*arguments, **named)  # type: ignore[arg-type]


def deadly_hands(store: Store, folder: Path, moments: Path) -> Callable[[], None]:
    """As `needs.hands`, but dies once in each piece of work: where it tells what it does, and before it is complete."""

    def die(moment: str) -> None:
        known = moments.read_text().splitlines() if moments.exists() else []
        if moment not in known:
            with moments.open("a") as file:
                file.write(f"{moment}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def carry_out() -> None:
        effect = store.effects.claim("worker", tuple(EffectKind), -1.0, NOW)
        if effect is None:
            return
        if effect.kind is EffectKind.DEPLOY_CLASSIFIER:
            store.effects.complete(effect.key, {"folder": "there"})
            return
        own = folder / str(effect.investigation_id)
        place = Workplace(store=store, case_id=CASE, folder=own, tell=die, door=lambda: None)
        answer = WORK[effect.payload["work"]](place, effect.payload["arguments"])
        die(f"before {effect.key} is complete")
        store.effects.complete(effect.key, {"answer": answer, "cpu_s": 1.0})

    return carry_out


def in_child(url: str, folder: Path) -> CaseStatus | None:
    """How far a process of its own came; None when it was killed. It comes from a server that never worked itself:
    a copy of a process that has used OpenMP would hang."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["needs", "langgraph.checkpoint.postgres", "sklearn.cluster", "loops.runner"])
    child = context.Process(target=_come_far, args=(url, folder))
    child.start()
    child.join()
    assert child.exitcode is not None
    if child.exitcode < 0:
        assert child.exitcode == -signal.SIGKILL
        return None
    return list(CaseStatus)[child.exitcode]


def _come_far(url: str, folder: Path) -> None:
    try:
        os._exit(list(CaseStatus).index(drive(url, folder)))
    finally:
        os._exit(99)


def drive(url: str, folder: Path) -> CaseStatus:
    options = {"autocommit": True, "prepare_threshold": 0, "options": "-c search_path=langgraph"}
    with (
        open_store(url, clock=lambda: NOW) as store,
        psycopg.connect(url, row_factory=dict_row, **options) as connection,  # type: ignore[arg-type]
    ):
        loop = ClassifierLoop(store, folder, lambda name: "", lambda: NOW)
        wait = deadly_hands(store, folder, folder / "moments")
        saver = DyingSaver(connection)  # type: ignore[arg-type]
        runner = Runner(store=store, checkpointer=saver, loops={loop.name: loop}, clock=lambda: NOW, wait=wait)
        return runner.start(loop.name, CASE).status


@pytest.mark.slow
def test_killed_again_and_again_every_version_is_made_once_and_the_same(database_url: str, tmp_path: Path) -> None:
    texts = documents(tmp_path, lines(300))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA langgraph")
        connection.execute("SET search_path TO langgraph")
        PostgresSaver(connection).setup()  # type: ignore[arg-type]
    with open_store(database_url, clock=lambda: NOW) as store:
        open_case(store, tmp_path, need(max_versions=2), texts)
    deaths = 0
    while (status := in_child(database_url, tmp_path)) is not CaseStatus.CLOSED:
        deaths += status is None
        assert deaths < 60
        if status is CaseStatus.WAITING_FOR_APPROVAL:
            with open_store(database_url, clock=lambda: NOW) as store:
                (proposal,) = store.proposals.list()
                store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "go", NOW, proposal.bound_hash)
    assert deaths >= 10
    with open_store(database_url, clock=lambda: NOW) as store:
        book = CaseBook(store, CASE, NOW)
        keys = [effect.key for effect in store.effects.list()]
        assert len(keys) == len(set(keys))
        models = sorted(path.stem for path in (tmp_path / CASE / "models").iterdir())
        assert models == sorted({each["model_sha256"] for each in book.versions()})
        assert [each["number"] for each in book.versions()] == [1, 2]
        steps = [(e.action, e.detail["step"]) for e in store.ledger.list(subject=f"investigation:{CASE}")]
        assert len(steps) == len(set(steps))
        assert len(store.casework.list(CASE, "deployed")) == 1
        calm = untouched(store, tmp_path, texts)
    for version, other in zip(book.versions(), calm, strict=True):
        assert (version["model_sha256"], version["probabilities"]) == (other["model_sha256"], other["probabilities"])


def untouched(store: Store, folder: Path, texts: object) -> list[dict[str, object]]:
    """The versions of the same need in a case that nobody kills."""
    from langgraph.checkpoint.memory import InMemorySaver
    from needs import hands

    other = f"{CASE}-calm"
    book = open_case(store, folder, need(name="calm", max_versions=2), texts, other)  # type: ignore[arg-type]
    loop = ClassifierLoop(store, folder, lambda name: "", lambda: NOW)
    wait = hands(store, folder)
    Runner(store=store, checkpointer=InMemorySaver(), loops={loop.name: loop}, clock=lambda: NOW, wait=wait).start(
        loop.name, other
    )
    return [dict(each) for each in book.versions()]


def label_in_child(url: str, folder: Path, address: str) -> bool:
    """False when it was killed in the middle of its labelling."""
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=_label, args=(url, folder, address))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode == 0


def _label(url: str, folder: Path, address: str) -> None:
    from agents.llm import Door, LocalBudget, ModelConfig, Outside
    from context_store.records import Amount

    numbers, moments = itertools.count(), folder / "moments"

    def die(text: str) -> None:
        known = moments.read_text().splitlines() if moments.exists() else []
        if text not in known and " labels " in text:
            moments.write_text("\n".join([*known, text]))
            os.kill(os.getpid(), signal.SIGKILL)

    outside = Outside(clock=time.monotonic, sleep=lambda seconds: None, new_id=lambda: str(next(numbers)))
    budget = LocalBudget(Amount(tokens=10_000_000, usd=100.0, wall_s=100_000.0))
    model = ModelConfig(name="openai/scripted", api_base=address, price=Price(prompt_usd=0.001, completion_usd=0.01))
    with open_store(url, clock=lambda: NOW) as store:
        place = Workplace(
            store=store, case_id=CASE, folder=folder / CASE, tell=die,
            door=lambda: Door([model.build()], budget, outside),
        )  # fmt: skip
        book = CaseBook(store, CASE, NOW)
        if book.sample() is None:
            answer = dict(WORK["sample"](place, {}))
            book.put_batches(answer.pop("batches"))
            book.put_sample(answer)
        book.put_tuned(WORK["tune"](place, {}))
        for batch in ("evaluation", "train-1"):
            book.put_labelled(batch, WORK["label"](place, {"batch": batch}))


@pytest.mark.slow
def test_killed_while_a_model_labels_each_text_is_asked_about_once(database_url: str, tmp_path: Path) -> None:
    def answer(body: Any) -> Turn:
        return Turn(text="offer" if "prize" in str(body["messages"][1]["content"]) else "letter")

    wanted = need(labellers=(Labeller.GIVEN, Labeller.MODEL), evaluation_size=40, first_labels=60, per_round=20)
    with open_store(database_url, clock=lambda: NOW) as store, ScriptedServer(answer) as server:
        book = open_case(store, tmp_path, wanted, documents(tmp_path, lines(300)))
        deaths = 0
        while not label_in_child(database_url, tmp_path, f"{server.url}/v1"):
            deaths += 1
            assert deaths < 60
        assert deaths >= 4
        asked = [tuple(message["content"] for message in body["messages"]) for body in server.requests]
        assert len(asked) == len(set(asked)) == len(book.told()) + len(book.unreadable())
        tuned = book.tuned()
        assert tuned is not None
        taken = [each["sha256"] for each in book.prompts() if each["decision"]["is_taken"]]
        assert taken[-1] == tuned["stands"] == book.standing_prompt_sha256()
