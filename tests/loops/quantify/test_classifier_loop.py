"""The classifier loop from the need to the proposal, with labels that were given, by persons and by a model."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from needs import CASE, NOW, deploy, documents, hands, lines, need, open_case

from agents.llm import Door, LocalBudget, Outside
from context_store import Store, open_store
from context_store.records import Amount
from contracts.enums import EffectKind, InvestigationState, Role
from contracts.errors import UserInputError
from loops.core import AwaitsPerson, Limits
from loops.quantify.card import card
from loops.quantify.deployment import Deployed, DeployPayload, read_back
from loops.quantify.labels import Label, agreements
from loops.quantify.loop import ClassifierLoop
from loops.quantify.need import Labeller, Option
from loops.runner import CaseStatus, Runner

sys.path.append(str(Path(__file__).parents[2] / "agents"))

from doors import PLENTY, openai_model
from scripted_server import ScriptedServer, Turn


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


def runner(
    store: Store, folder: Path, door: Callable[[], Door | None] = lambda: None, stands: str = "",
    limits: Limits | None = None,
) -> Runner:  # fmt: skip
    loop = ClassifierLoop(store, folder, lambda name: stands, lambda: NOW)
    wait = hands(store, folder, door)
    return Runner(
        store=store, checkpointer=InMemorySaver(), loops={loop.name: loop}, clock=lambda: NOW, wait=wait, limits=limits
    )


def test_from_the_need_to_a_proposal(store: Store, tmp_path: Path) -> None:
    """Shows R801-5.3: a need, a labelled set, versions that answer the error analysis, a deployment to be decided."""
    book = open_case(store, tmp_path, need(max_versions=4), documents(tmp_path, lines(320)))
    done = runner(store, tmp_path).start("classifier", CASE)
    assert done.status is CaseStatus.WAITING_FOR_APPROVAL
    versions, final, standing = book.versions(), book.final(), book.standing()
    assert standing is not None
    assert final is not None
    assert [each["number"] for each in versions] == list(range(1, len(versions) + 1))
    assert len({each["evaluation_sha256"] for each in versions}) == 1  # Shows R801-5.5: the set stays the same
    assert max(each["num_labels"] for each in versions) <= 120
    assert {"labels", "settings"} & {each["revision"]["kind"] for each in versions}
    assert final["held_out"]["accuracy"]["value"] > 0.8
    not_taken = [each for each in versions if not each["decision"]["is_taken"]]
    negatives = store.negatives.list(investigation_id=CASE)
    assert len(negatives) == len(not_taken) > 0
    assert all(each.observed_effect is not None for each in negatives)
    (proposal,) = store.proposals.list()
    assert proposal.payload["sha256"] == standing["model_sha256"]
    assert proposal.payload["version"] == standing["number"]
    text = card(book)
    assert f"## Version {standing['number']}: agreement with the reference" in text
    assert "held out, looked at once" in text


def test_a_declined_deployment_is_a_negative_result(store: Store, tmp_path: Path) -> None:
    open_case(store, tmp_path, need(max_versions=1), documents(tmp_path, lines(300)))
    driver = runner(store, tmp_path)
    proposal_id = driver.start("classifier", CASE).proposal_id
    store.proposals.reject(proposal_id, "ada", Role.REVIEWER, "the classes overlap", NOW)
    assert driver.resume(CASE).status is CaseStatus.CLOSED
    (found,) = store.negatives.list(investigation_id=CASE)
    assert "rejected by ada: the classes overlap" in found.observed


def test_too_few_labels_of_a_class_end_the_case_with_the_reason(store: Store, tmp_path: Path) -> None:
    rows = [{**row, "label": "letter"} for row in lines(300)]
    open_case(store, tmp_path, need(), documents(tmp_path, rows))
    assert runner(store, tmp_path).start("classifier", CASE).status is CaseStatus.CLOSED
    assert any("only 0 labelled texts" in each.observed for each in store.negatives.list(investigation_id=CASE))


def test_a_text_file_that_was_changed_is_not_worked_on(store: Store, tmp_path: Path) -> None:
    open_case(store, tmp_path, need(), documents(tmp_path, lines(300)))
    path = tmp_path / CASE / "documents.jsonl"

    def tampering() -> None:
        path.write_text(path.read_text().replace("meeting", "winning"))

    carry_out, done = hands(store, tmp_path), itertools.count()
    loop = ClassifierLoop(store, tmp_path, lambda name: "", lambda: NOW)

    def wait() -> None:
        if next(done) == 1:
            tampering()
        carry_out()

    driver = Runner(store=store, checkpointer=InMemorySaver(), loops={loop.name: loop}, clock=lambda: NOW, wait=wait)
    assert driver.start("classifier", CASE).status is CaseStatus.CLOSED
    assert any("documents of this case were changed" in each.observed for each in store.negatives.list())


def test_persons_label_and_are_asked_again_about_what_looks_wrong(store: Store, tmp_path: Path) -> None:
    """The case rests while a person has not answered; wrong labels of theirs are asked about again."""
    truth = {row["id"]: row["label"] == "offer" for row in lines(300)}
    texts = documents(tmp_path, lines(300, labelled=False))
    wanted = need(
        labellers=(Labeller.PERSON,), evaluation_size=40, first_labels=40, per_round=20, label_budget=40, max_versions=2
    )
    book = open_case(store, tmp_path, wanted, texts)
    driver = runner(store, tmp_path)
    with pytest.raises(AwaitsPerson, match="wait for labels of a person"):
        driver.start("classifier", CASE)
    assert sorted(book.missing()) == ["evaluation", "held_out", "train-1"]
    missing = book.missing()
    for batch, items in missing.items():
        for number, item in enumerate(items):
            wrong = batch == "train-1" and number % 9 == 0
            book.put_label(Label(item=item, source="person:ada", positive=truth[item] != wrong, batch=batch))
        if batch == "evaluation":
            with pytest.raises(AwaitsPerson):
                driver.resume(CASE)
    with pytest.raises(AwaitsPerson):  # version 1 is made; now it asks about the labels that look wrong
        driver.resume(CASE)
    (again,) = book.missing().values()
    assert set(again) <= set(missing["train-1"])
    for item in again:
        book.put_label(Label(item=item, source="person:ada", positive=truth[item], batch="check-2"))
    assert driver.resume(CASE).status is CaseStatus.WAITING_FOR_APPROVAL
    first, second = book.versions()
    assert second["revision"]["kind"] == "check"
    assert second["labels_sha256"] != first["labels_sha256"]
    assert second["evaluation_sha256"] == first["evaluation_sha256"]


def _scripted(body: Any) -> Turn:
    """Finds offers by most of their words; two of them only where its prompt shows them."""
    instructions, text = (message["content"] for message in body["messages"][:2])
    words = set(text.split())
    offers = {"win", "free", "cash", "click", "cheap", "deal"} | {w for w in ("prize", "bonus") if w in instructions}
    return Turn(text="offer" if len(words & offers) >= 3 else "letter")


_numbers = itertools.count()  # of calls: a budget knows them by it, whichever door they went through


def door_to(server: ScriptedServer, budget: LocalBudget) -> Door:
    outside = Outside(clock=time.monotonic, sleep=lambda seconds: None, new_id=lambda: str(next(_numbers)))
    return Door([openai_model(server)], budget, outside)


@pytest.fixture
def door() -> Iterator[Callable[[], Door]]:
    with ScriptedServer(_scripted) as server:
        yield lambda: door_to(server, LocalBudget(PLENTY))


def test_a_model_labels_for_training_and_its_agreement_is_measured(
    store: Store, tmp_path: Path, door: Callable[[], Door]
) -> None:
    """Shows R801-5.3 steps 2 to 5 and both options: the tuned prompt (A) and the classifier it teaches (B)."""
    wanted = need(
        labellers=(Labeller.GIVEN, Labeller.MODEL), evaluation_size=40, first_labels=50, per_round=40, label_budget=50,
        max_versions=1, option=Option.BEST,
    )  # fmt: skip
    book = open_case(store, tmp_path, wanted, documents(tmp_path, lines(300)))
    done = runner(store, tmp_path, door).start("classifier", CASE)
    assert done.status is CaseStatus.WAITING_FOR_APPROVAL, book.failures()
    prompts = book.prompts()
    assert len(prompts) > 1
    assert prompts[0]["decision"]["is_taken"]
    standing = book.standing_prompt(tmp_path / CASE)
    assert standing is not None
    assert standing.sha256 == book.standing_prompt_sha256()
    final = book.final()
    assert final is not None
    (pair,) = final["agreements"]
    assert (pair["first"], pair["second"]) == ("given", "model")
    assert -1.0 <= pair["kappa"]["low"] <= pair["kappa"]["value"] <= pair["kappa"]["high"] <= 1.0
    labelled = book.labelled()["train-1"]
    assert labelled["cost"]["calls"] > 0
    assert labelled["cost"]["tokens"] > 0
    (version,) = book.versions()
    assert version["num_labels"] == 50  # 20 of the first texts have the labels that the prompt was tuned by
    assert json.loads(json.dumps(final)) == final


def _refusing(body: Any) -> Turn:
    """As `_scripted`, but for texts it will not look at, and answers that nobody can read."""
    text = str(body["messages"][1]["content"])
    if "guarantee" in text.split()[:6]:
        return Turn(status=400, message="refused by the content policy")
    return Turn(text="hm") if "urgent" in text.split()[:6] else _scripted(body)


def test_a_model_is_the_reference_and_persons_give_a_second_number(store: Store, tmp_path: Path) -> None:
    """Shows R801-5.3, R801-5.4: no prompt can be judged by itself; a text the model refuses is no label and no end."""
    wanted = need(
        labellers=(Labeller.MODEL, Labeller.PERSON), evaluation_size=40, first_labels=60, label_budget=60,
        max_versions=1, option=Option.BEST,
    )  # fmt: skip
    truth = {row["id"]: row["label"] == "offer" for row in lines(300)}
    book = open_case(store, tmp_path, wanted, documents(tmp_path, lines(300, labelled=False)))
    with ScriptedServer(_refusing) as server:
        driver = runner(store, tmp_path, lambda: door_to(server, LocalBudget(PLENTY)))
        done = driver.start("classifier", CASE)
        for item in book.batches()["evaluation"]["items"][:20]:
            book.put_label(Label(item=item, source="person:ada", positive=truth[item], batch="evaluation"))
    assert done.status is CaseStatus.WAITING_FOR_APPROVAL, book.failures()
    assert any("no answer" in each["answer"] for each in book.unreadable())
    assert any(each["answer"] == "hm" for each in book.unreadable())
    assert [each["why"] for each in book.prompts()] == [""]  # none was tuned
    final, (proposal,) = book.final(), store.proposals.list()
    assert final is not None
    assert final["prompt"]["is_reference"]
    assert proposal.payload["option"] == "model"
    assert "the reference itself" in proposal.risk
    (pair,) = [each for each in agreements(book.labels(), wanted.labellers) if each.second is Labeller.PERSON]
    assert 10 <= pair.num_texts <= 20


def test_labelling_ends_where_the_budget_does_and_the_case_goes_on(store: Store, tmp_path: Path) -> None:
    wanted = need(
        labellers=(Labeller.GIVEN, Labeller.MODEL), evaluation_size=40, first_labels=60, per_round=20, label_budget=60,
        max_versions=1,
    )  # fmt: skip
    book = open_case(store, tmp_path, wanted, documents(tmp_path, lines(300)))
    with ScriptedServer(_scripted) as server:
        budget = LocalBudget(Amount(tokens=8_000, usd=100.0, wall_s=100_000.0))
        runner(store, tmp_path, lambda: door_to(server, budget)).start("classifier", CASE)
    tuned, labelled = book.tuned(), book.labelled()
    assert tuned is not None
    assert tuned["stopped"] or any(each["stopped"] for each in labelled.values())
    assert set(labelled) == {"evaluation", "train-1"}
    assert book.standing_prompt_sha256() == tuned["stands"] == book.prompts()[0]["sha256"]


def test_without_a_model_a_need_that_wants_one_says_so(store: Store, tmp_path: Path) -> None:
    open_case(store, tmp_path, need(labellers=(Labeller.MODEL,)), documents(tmp_path, lines(300)))
    assert runner(store, tmp_path).start("classifier", CASE).status is CaseStatus.CLOSED
    (found,) = store.negatives.list(investigation_id=CASE)
    assert "no language model is set" in found.observed
    assert store.knowledge.investigation(CASE).state is InvestigationState.CLOSED


def test_what_is_deployed_is_kept_where_a_later_case_finds_nothing_better(store: Store, tmp_path: Path) -> None:
    """Shows R801-5.6: the earlier version is measured on the new set first, and a worse one is not proposed. What had
    taught it does not judge it."""
    earlier = "classifier-offers-0"
    texts = documents(tmp_path, lines(700))
    first = open_case(store, tmp_path, need(first_labels=120, max_versions=1), texts, earlier)
    runner(store, tmp_path).start("classifier", earlier)
    deployed = deploy(first, tmp_path)
    assert read_back(deployed.folder, deployed.payload, need()) == deployed.payload.sha256
    (deployed.folder / "rules.json").write_text('[[["prize"], true]]')
    assert read_back(deployed.folder, deployed.payload, need()) != deployed.payload.sha256
    (deployed.folder / "rules.json").write_text("[]")
    poor = need(first_labels=12, label_budget=12, max_versions=1, seed=5)
    later = open_case(store, tmp_path, poor, documents(tmp_path, lines(700)), deployed=deployed)
    done = runner(store, tmp_path, stands=deployed.payload.sha256).start("classifier", CASE)
    assert done.status is CaseStatus.CLOSED
    kept, worse = later.versions()
    assert (kept["number"], kept["decision"]["is_taken"], kept["sha256"]) == (0, True, deployed.payload.sha256)
    assert not worse["decision"]["is_taken"]
    assert not store.proposals.list(investigation_id=CASE)
    sampled, place = later.sample(), texts.place()
    assert sampled is not None
    taught = {texts.texts[place[item]] for item in first.batches()["train-1"]["items"]}
    judging = {texts.texts[place[item]] for item in [*sampled["evaluation"], *sampled["held_out"]]}
    assert not {text.removesuffix(" again") for text in taught} & {text.removesuffix(" again") for text in judging}


def test_a_deployed_file_that_is_gone_is_said_before_a_case_begins(store: Store, tmp_path: Path) -> None:
    payload = DeployPayload(name="offers", case_id="c", version=1, option="model", sha256="0" * 64, base="")
    with pytest.raises(UserInputError, match="cannot be compared"):
        open_case(
            store, tmp_path, need(), documents(tmp_path, lines(30)),
            deployed=Deployed(payload=payload, folder=tmp_path / "gone"),
        )  # fmt: skip


def test_a_case_that_is_stopped_proposes_what_stands(store: Store, tmp_path: Path) -> None:
    book = open_case(store, tmp_path, need(), documents(tmp_path, lines(300)))
    done = runner(store, tmp_path, limits=Limits(max_rounds=2)).start("classifier", CASE)
    assert done.status is CaseStatus.WAITING_FOR_APPROVAL
    assert len(book.versions()) == 1
    final = book.final()
    assert final is not None
    assert final["held_out"]["num_texts"] >= 40
    assert any("stopped after 2 rounds" in each.observed for each in store.negatives.list(investigation_id=CASE))


def test_a_piece_of_work_that_runs_over_says_so(store: Store, tmp_path: Path) -> None:
    book = open_case(store, tmp_path, need(), documents(tmp_path, lines(300)))
    now = itertools.count(NOW, 100.0)
    loop = ClassifierLoop(store, tmp_path, lambda name: "", lambda: NOW)

    def claimed_only() -> None:
        store.effects.claim("worker", (EffectKind.CASE_WORK,), 0.0, NOW)

    driver = Runner(
        store=store, checkpointer=InMemorySaver(), loops={loop.name: loop}, clock=lambda: next(now), wait=claimed_only,
        limits=Limits(wall_s=500.0),
    )  # fmt: skip
    assert driver.start("classifier", CASE).status is CaseStatus.CLOSED
    (failure,) = book.failures()
    assert failure["message"] == "the time was up before it was done"
