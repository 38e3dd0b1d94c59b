"""A person labels 50 texts in a browser, looks where the classifier is wrong, and approves its deployment."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import RunningLathe, wait_until

from contracts.enums import InvestigationState
from control_plane import classifiers
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Worker
from loops.quantify.deployment import current
from loops.quantify.documents import read_documents
from loops.quantify.need import Labeller, Need

Page = Any
CASE = "classifier-offers-1"
_OFFER = ("win", "free", "prize", "cash", "urgent", "bonus", "cheap", "deal", "winner", "credit")
_OTHER = ("meeting", "patch", "compile", "thread", "kernel", "review", "branch", "build", "release", "server")
_IS_NEXT = "shown => document.querySelector('.lt-card.lt-text')?.innerText !== shown"
MARKUP = '<b id="injected">bold</b>'


@pytest.fixture(scope="module")
def working(lathe: RunningLathe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lathe]:
    """A worker beside the page, over the same store."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, database_url=lathe.store.url, backend="local", num_cpus=1)
    stop = threading.Event()
    with Lathe.open(settings) as opened, Worker(opened, name="test") as worker:
        thread = threading.Thread(target=worker.run_forever, args=(stop,), daemon=True)
        thread.start()
        yield opened
        stop.set()
        thread.join(timeout=20)


def _texts(folder: Path) -> dict[str, str]:
    """Text -> label, in a file of JSON lines beside it without the labels."""
    rng, found = np.random.default_rng(0), {}
    for number in range(150):
        own, other = (_OFFER, _OTHER) if number % 2 else (_OTHER, _OFFER)
        words = rng.permutation(rng.choice(own, 14).tolist() + rng.choice(other, 4).tolist()).tolist()
        text = " ".join([*words, f"number{number}"]) + (f" {MARKUP}" if number % 10 == 0 else "")
        found[text] = "offer" if number % 2 else "letter"
    lines = [{"id": f"t{n}", "text": text, "source": ("web", "list")[n % 4 < 2]} for n, text in enumerate(found)]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return found


@pytest.mark.slow
def test_a_person_labels_fifty_texts_and_approves_the_deployment(
    page: Page, lathe: RunningLathe, working: Lathe, tmp_path: Path
) -> None:
    """Shows R801-5.3: one item at a time, by key or button, to a classifier that is in place."""
    truth = _texts(tmp_path)
    need = Need(
        name="offers", need="Find texts that offer something.", positive="offer", negative="letter",
        labellers=(Labeller.PERSON,), evaluation_size=20, first_labels=20, label_budget=20, max_versions=1,
    )  # fmt: skip
    documents = read_documents(tmp_path / "texts.jsonl")
    classifiers.open_need(working.store, working.settings.cases_folder, need, documents, time.time())
    wait_until(lambda: classifiers.CaseBook(working.store, CASE, 0.0).sample() is not None)
    page.goto(f"{lathe.url}/classifiers?token={lathe.reviewer}")
    page.get_by_text("0 of 50 labelled").wait_for()
    for number in range(50):
        text = page.locator(".lt-card.lt-text").inner_text()
        label = truth[text]
        if number % 2:
            page.keyboard.press("1" if label == "offer" else "2")
        else:
            page.get_by_role("button", name=label, exact=False).first.click()
        page.get_by_text(f"{number + 1} of 50 labelled, {number + 1} by you").wait_for()
        page.wait_for_function(_IS_NEXT, arg=text)
    assert page.locator("#injected").count() == 0
    wait_until(lambda: bool(working.store.proposals.list()))
    page.goto(f"{lathe.url}/classifiers?case={CASE}")
    page.locator(".lt-table", has_text="the first labels as they are").get_by_text("✔ taken").wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    page.get_by_text("Confusion", exact=True).click()
    page.get_by_text("rightly left").wait_for()
    page.get_by_test_id("stButtonGroup").get_by_text("source", exact=True).click()
    page.get_by_text(re.compile(r"^web")).first.wait_for()
    page.get_by_role("button", name=re.compile(r"^[1-9]\d*$")).first.click()
    page.get_by_text(re.compile("is (offer|letter), was called (offer|letter)")).wait_for()
    assert page.locator("#injected").count() == 0
    page.get_by_text("Deployment", exact=True).click()
    page.get_by_role("button", name="Approve").click()
    page.locator(".lt-decided.lt-approved").wait_for()
    wait_until(lambda: working.store.knowledge.investigation(CASE).state is InvestigationState.CLOSED)
    found = current(working.settings.classifiers_folder, "offers")
    assert found is not None
    assert (found.folder / "scorer.py").exists()
