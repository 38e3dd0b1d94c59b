"""A need, its texts, and the loop driven in this process: pieces of work are carried out by whoever waits for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from context_store import Store
from context_store.records import Project
from contracts.enums import EffectKind
from contracts.errors import LatheError
from loops.core import Workplace
from loops.quantify.casebook import LOOP, CaseBook, documents_path
from loops.quantify.deployment import Deployed, DeployPayload, copy_deployed, put_in_place
from loops.quantify.documents import Documents, read_documents
from loops.quantify.need import Labeller, Need, Option
from loops.quantify.work import WORK

NOW = 1_000_000.0
CASE = "classifier-offers-1"
_OFFERS = (
    "win", "free", "prize", "offer", "cash", "urgent", "click", "guarantee", "limited", "bonus", "cheap", "deal",
    "winner", "credit",
)  # fmt: skip
_LETTERS = (
    "meeting", "patch", "compile", "thread", "list", "kernel", "review", "branch", "build", "release", "question",
    "server", "thanks", "module",
)  # fmt: skip
_BOTH = (
    "the", "a", "of", "to", "and", "in", "is", "it", "you", "that", "on", "for", "with", "as", "this", "have",
    "from", "we", "be", "not",
)  # fmt: skip


def need(**changes: Any) -> Need:
    fields: dict[str, Any] = {
        "name": "offers", "need": "Find texts that offer something for sale.", "positive": "offer",
        "negative": "letter", "labellers": (Labeller.GIVEN,), "evaluation_size": 80, "first_labels": 40,
        "per_round": 40, "label_budget": 120, "max_versions": 5, "option": Option.MODEL,
    }  # fmt: skip
    return Need(**{**fields, **changes})


def text(offer: bool, rng: np.random.Generator, length: int = 30) -> str:
    ours, theirs = (_OFFERS, _LETTERS) if offer else (_LETTERS, _OFFERS)
    telling, swapped = rng.random(length) < 0.25, rng.random(length) < 0.15
    return " ".join(
        str(rng.choice(_BOTH if not tells else theirs if swap else ours))
        for tells, swap in zip(telling, swapped, strict=True)
    )


def lines(num: int, *, seed: int = 0, labelled: bool = True) -> list[dict[str, str]]:
    """A third are offers. Every tenth text comes twice, nearly the same."""
    rng, found = np.random.default_rng(seed), []
    for number in range(num):
        offer = bool(rng.random() < 1 / 3)
        body = found[-1]["text"] + " again" if number % 10 == 9 else text(offer, rng)
        label = found[-1].get("truth", "") if number % 10 == 9 else ("offer" if offer else "letter")
        line = {"id": f"t{number}", "text": body, "source": ("web", "list", "shop")[number % 3], "truth": label}
        found.append(line)
    for line in found:
        truth = line.pop("truth")
        line |= {"label": truth} if labelled else {}
    return found


def documents(folder: Path, rows: list[dict[str, str]]) -> Documents:
    import json

    path = folder / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return read_documents(path)


def open_case(
    store: Store, folder: Path, wanted: Need, texts: Documents, case_id: str = CASE, deployed: Deployed | None = None
) -> CaseBook:
    own = folder / case_id
    own.mkdir(parents=True, exist_ok=True)
    if deployed is not None:
        copy_deployed(deployed, own)
    texts.write(documents_path(own))
    store.projects.put(Project(id="p", path="/nowhere"))
    store.knowledge.open_case(case_id, project_id="p", loop=LOOP, title="offers", at=NOW)
    book = CaseBook(store, case_id, NOW)
    base = None if deployed is None else deployed.payload.model_dump()
    book.put_need(wanted, texts.sha256, len(texts.texts), base)
    return book


def deploy(book: CaseBook, folder: Path) -> Deployed:
    """The version of the case that stands, as its approved proposal would do it."""
    standing, wanted = book.standing(), book.need()
    assert standing is not None
    payload = DeployPayload(
        name=wanted.name, case_id=book.case_id, version=standing["number"], option="model", sha256=standing["sha256"],
        base="",
    )  # fmt: skip
    return Deployed(
        payload=payload, folder=put_in_place(book, folder / book.case_id, folder / "deployments", payload)
    )  # fmt: skip


def hands(store: Store, folder: Path, door: Callable[[], Any] = lambda: None) -> Callable[[], None]:
    """Carries out one piece of work."""

    def carry_out() -> None:
        effect = store.effects.claim("worker", (EffectKind.CASE_WORK,), 0.0, NOW)
        if effect is None:
            return
        own = folder / str(effect.investigation_id)
        place = Workplace(
            store=store, case_id=str(effect.investigation_id), folder=own, tell=lambda text: None, door=door
        )
        try:
            answer = WORK[effect.payload["work"]](place, effect.payload["arguments"])
        except LatheError as error:
            store.effects.fail(effect.key, error.message, error.remedy)
        else:
            store.effects.complete(effect.key, {"answer": answer, "cpu_s": 1.0})

    return carry_out
