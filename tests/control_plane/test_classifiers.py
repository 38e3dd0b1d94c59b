"""A classifier from `lathe classifier new` to its deployment in real processes; then its use, its drift, its undo."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from context_store.records import EffectRequest
from contracts.enums import EffectKind, EffectState, InvestigationState, Role
from contracts.errors import NotFound, UserInputError
from control_plane import classifiers, deployed
from control_plane.api.app import ApiOptions, create_app
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Worker
from loops.quantify.documents import Documents, read_documents
from loops.quantify.need import Labeller, Need, Option

CASE = "classifier-offers-1"
_OFFER = ("win", "free", "prize", "cash", "urgent", "bonus", "cheap", "deal", "winner", "credit")
_OTHER = ("meeting", "patch", "compile", "thread", "kernel", "review", "branch", "build", "release", "server")


def rows(num: int, *, seed: int = 0, labelled: bool = True) -> list[dict[str, str]]:
    rng, found = np.random.default_rng(seed), []
    for number in range(num):
        offer = number % 3 == 0
        words = rng.choice(_OFFER if offer else _OTHER, 14).tolist() + rng.choice(_OTHER, 6).tolist()
        label = {"label": "offer" if offer else "letter"} if labelled else {}
        found.append(
            {"id": f"t{number}", "text": " ".join(rng.permutation(words)), "source": "web" if number % 2 else "list"}
        )
        found[-1] |= label
    return found


def texts(folder: Path, found: list[dict[str, str]], name: str = "texts.jsonl") -> Documents:
    (folder / name).write_text("\n".join(map(json.dumps, found)))
    return read_documents(folder / name)


def work(lathe: Lathe, done: Callable[[], bool], give_up_s: float = 150.0) -> None:
    give_up_at = time.monotonic() + give_up_s
    with Worker(lathe, name="test") as worker:
        while not done():
            assert time.monotonic() < give_up_at
            if not worker.step():
                time.sleep(0.05)


def state(lathe: Lathe, case_id: str = CASE) -> InvestigationState:
    return lathe.store.knowledge.investigation(case_id).state


@pytest.mark.slow
def test_from_the_command_line_to_a_deployment_and_back(
    lathe: Lathe, settings: Settings, tmp_path: Path, run_lathe: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Shows R801-5.3, R801-5.6: stated, made by child processes, approved by a person, used, watched, taken back."""
    texts(tmp_path, rows(240))
    environment = settings.as_environment()
    status, _, said = run_lathe(
        environment, "classifier", "new", "offers", "--need", "Find offers.", "--documents", tmp_path / "texts.jsonl",
        "--classes", "offer,letter", "--evaluation", 40, "--first", 40, "--budget", 60, "--cost", "1,3",
        "--versions", 4, "--per-round", 20,
    )  # fmt: skip
    assert (status, CASE in said) == (0, True)
    work(lathe, lambda: state(lathe) is InvestigationState.WAITING_FOR_APPROVAL)
    _api(lathe)
    (proposal,) = lathe.store.proposals.list()
    lathe.store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "go", time.time(), proposal.bound_hash)
    work(lathe, lambda: state(lathe) is InvestigationState.CLOSED)
    effect = lathe.store.effects.get(f"apply:{proposal.id}")
    assert effect.state is EffectState.DONE, effect.message
    folder = Path(effect.result["folder"])
    assert {each.name for each in folder.iterdir()} >= {"classifier.npz", "scorer.py", "card.md", "rules.json"}
    unseen = rows(30, seed=4, labelled=False)
    lines = "\n".join(map(json.dumps, unseen))
    ran = subprocess.run(
        [sys.executable, "-I", str(folder / "scorer.py")], input=lines, capture_output=True, text=True, check=True
    )
    judge = deployed.open_judge(lathe, "offers")
    ours = [json.loads(line) for line in deployed.score_lines(judge, lines.split("\n"))]
    assert [json.loads(line) for line in ran.stdout.splitlines()] == ours
    assert sum(each["is_positive"] == (number % 3 == 0) for number, each in enumerate(ours)) >= 28
    _drift(lathe, tmp_path)
    _commands(lambda *words: run_lathe(environment, "classifier", *words), lines, tmp_path, monkeypatch)
    undo(lathe, effect.key)
    with pytest.raises(NotFound, match="nothing is deployed"):
        deployed.open_judge(lathe, "offers")


def _api(lathe: Lathe) -> None:
    app = create_app(lathe.store, options=ApiOptions(hosts=("testserver",)))
    secret, viewer = (lathe.store.tokens.create(role, role) for role in (Role.RESEARCHER, Role.VIEWER))
    with TestClient(app, headers={"Authorization": f"Bearer {secret}"}) as api:
        (line,) = api.get("/api/v1/classifiers").json()["classifiers"]
        assert (line["case_id"], line["standing"] is not None, line["waiting"]) == (CASE, True, 0)
        whole = api.get(f"/api/v1/classifiers/{CASE}").json()
        assert whole["card"].startswith("# Classifier offers")
        assert whole["attributes"] == ["length", "source"]
        query = {"version": line["standing"], "attribute": "source"}
        cells = api.get(f"/api/v1/classifiers/{CASE}/confusion", params=query).json()["cells"]
        assert sum(each["num_texts"] for each in cells) >= 40
        cell = {key: cells[0][key] for key in ("slice", "wanted", "said")}
        found = api.get(f"/api/v1/classifiers/{CASE}/texts", params={**query, **cell}).json()["texts"]
        assert len(found) == cells[0]["num_texts"]
        question = api.get(f"/api/v1/classifiers/{CASE}/next").json()["question"]
        body = {"batch": question["batch"], "item": question["item"], "label": "offer"}
        path = f"/api/v1/classifiers/{CASE}/labels"
        assert api.post(path, json=body, headers={"Authorization": f"Bearer {viewer}"}).status_code == 403
        assert api.post(path, json=body).json()["mine"] == 1
        assert api.post(path, json=body).status_code == 200
        assert api.post(path, json={**body, "label": "letter"}).status_code == 400
        assert api.post(path, json={**body, "label": "song"}).status_code == 400
        assert api.post(path, json={**body, "item": "nobody"}).status_code == 404
        assert api.get("/api/v1/classifiers/nothing").status_code == 404


def _commands(
    run: Callable[..., tuple[int, str, str]], lines: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person does with a deployed classifier from the command line."""
    assert "offers" in run("list")[1]
    status, shown, _ = run("show", "offers")
    assert (status, shown.startswith("# Classifier offers"), "the scores drifted" in shown) == (0, True, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    status, said, _ = run("score", "offers")
    assert (status, len(said.splitlines())) == (0, 30)
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    status, said, told = run("filter", "offers", "--drop")
    assert len(said.splitlines()) == int(told.split(" kept")[0].splitlines()[-1])
    assert 18 <= len(said.splitlines()) <= 22
    status, said, _ = run("drift", "offers", folder / "same.jsonl")
    assert (status, "no drift" in said) == (0, True)
    status, _, told = run("prompt", "offers", folder / "prompt.txt")
    assert (status, "has no labelling prompt" in told) == (2, True)


def _drift(lathe: Lathe, folder: Path) -> None:
    at, judge = time.time(), deployed.open_judge(lathe, "offers")
    same = texts(folder, rows(120, seed=5, labelled=False), "same.jsonl")
    calm = deployed.check_drift(lathe.store, judge, same, at)
    assert not calm["has_drifted"]
    offers = [row for row in rows(360, seed=6, labelled=False) if int(row["id"][1:]) % 3 == 0]
    moved = deployed.check_drift(lathe.store, judge, texts(folder, offers, "o.jsonl"), at)
    assert moved["has_drifted"]
    assert any("drifted" in each.text for each in lathe.store.activity.after(0) if each.kind == "finding")


def undo(lathe: Lathe, key: str) -> None:
    """Only what an open case did can be taken back."""
    lathe.store.knowledge.set_investigation(CASE, state=InvestigationState.WAITING_FOR_APPROVAL)
    lathe.store.effects.request(
        EffectRequest(
            key="undo-1", kind=EffectKind.UNDO, payload={"effect": key}, investigation_id=CASE, actor="person:ada"
        )
    )
    over = (EffectState.DONE, EffectState.FAILED, EffectState.REFUSED)
    work(lathe, lambda: lathe.store.effects.get("undo-1").state in over)
    effect = lathe.store.effects.get("undo-1")
    assert effect.state is EffectState.DONE, effect.message


def _need(**changes: Any) -> Need:
    fields: dict[str, Any] = {
        "name": "offers", "need": "Find offers.", "positive": "offer", "negative": "letter",
        "labellers": (Labeller.GIVEN,),
    }  # fmt: skip
    return Need(**{**fields, **changes})


def test_what_cannot_begin_is_said_at_once(lathe: Lathe, settings: Settings, tmp_path: Path) -> None:
    unlabelled = texts(tmp_path, rows(20, labelled=False))
    with pytest.raises(UserInputError, match="no text has a label"):
        classifiers.open_need(lathe.store, settings.cases_folder, _need(), unlabelled, time.time())
    wrong = texts(tmp_path, [{**row, "label": "song"} for row in rows(20)])
    with pytest.raises(UserInputError, match="'song' is no class"):
        classifiers.open_need(lathe.store, settings.cases_folder, _need(), wrong, time.time())
    with pytest.raises(NotFound, match="no classifier 'offers'"):
        classifiers.newest(lathe.store, "offers")
    persons = _need(labellers=(Labeller.PERSON,))
    first, second = (
        classifiers.open_need(lathe.store, settings.cases_folder, persons, unlabelled, time.time()) for _ in range(2)
    )
    assert (first.id, second.id) == (CASE, "classifier-offers-2")
    assert classifiers.newest(lathe.store, "offers") == second.id
    assert classifiers.newest(lathe.store, first.id) == first.id


def test_labels_of_a_file_are_all_taken_or_none(
    lathe: Lathe, settings: Settings, tmp_path: Path, run_lathe: Callable[..., tuple[int, str, str]]
) -> None:
    unlabelled = texts(tmp_path, rows(20, labelled=False))
    wanted = _need(labellers=(Labeller.PERSON,))
    case = classifiers.open_need(lathe.store, settings.cases_folder, wanted, unlabelled, time.time())
    book = classifiers.CaseBook(lathe.store, case.id, time.time())
    book.put_batches({"evaluation": {"items": ["t0", "t1", "t2"], "labellers": ["person"]}})

    def give(*labels: tuple[str, str]) -> tuple[int, str]:
        lines = [json.dumps({"id": item, "label": label}) for item, label in labels]
        (tmp_path / "labels.jsonl").write_text("\n".join(lines))
        status, _, told = run_lathe(
            settings.as_environment(), "classifier", "label", "offers", tmp_path / "labels.jsonl"
        )
        return status, told

    status, told = give(("t0", "offer"), ("nobody", "offer"))
    assert (status, "nobody asked about 'nobody'" in told, book.told()) == (2, True, [])
    status, told = give(("t0", "offer"), ("t0", "letter"))
    assert (status, "otherwise" in told, book.told()) == (2, True, [])
    assert give(("t0", "offer"), ("t1", "letter")) == (0, "1 of 3 texts still wait\n")
    assert give(("t0", "offer"), ("t1", "letter")) == (0, "1 of 3 texts still wait\n")
    assert give(("t2", "offer"), ("t1", "offer"))[0] == 2
    assert len(book.told()) == 2


def test_a_prompt_of_no_model_is_refused(lathe: Lathe, settings: Settings, tmp_path: Path) -> None:
    wanted, given = _need(option=Option.PROMPT), texts(tmp_path, rows(20))
    with pytest.raises(UserInputError, match="there is no prompt"):
        classifiers.open_need(lathe.store, settings.cases_folder, wanted, given, time.time())
