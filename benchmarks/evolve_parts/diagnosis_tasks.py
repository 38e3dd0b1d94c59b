"""The debug loop's ranking of suspects as a scaffold, and cases of TrainRCA as its tasks.

A task shows what is known of a case before anything is run again: the symptoms, the suspects and their signs. The truth
goes to the grader only. A case in which nothing was found asks nothing, and is left out.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.evolve_parts.exporting import Question, scaffold
from benchmarks.trainrca.answers import Facts
from benchmarks.trainrca.databases import server
from benchmarks.trainrca.form import Case, Shelf, Truth
from benchmarks.trainrca.methods.reading import facts_of
from benchmarks.trainrca.placing import bench, place
from context_store import Store
from loops.debug import detect, open_case, scoring
from loops.debug.case import load_case
from loops.debug.ranking import Ranked
from loops.evolve.tasks import Split

_TURN = (Split.FIX, Split.GATE, Split.SEALED)


def exported(shelf: Shelf) -> tuple[list[Question], dict[str, int]]:
    """The tasks, their splits in turn by the hash of the case; and how many cases are none."""
    found: list[Question] = []
    left_out = {"nothing_found": 0, "no_suspects": 0}
    with server() as url:
        for case in sorted(shelf.list(), key=lambda each: hashlib.sha256(each.id.encode()).hexdigest()):
            question = _asked_of(shelf, case, _TURN[len(found) % len(_TURN)], url)
            if isinstance(question, str):
                left_out[question] += 1
            else:
                found.append(question)
    return found, left_out


def _asked_of(shelf: Shelf, case: Case, split: Split, server_url: str) -> Question | str:
    with ExitStack() as resources:
        home = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="lt")))
        lathe = resources.enter_context(bench(home / "h", home / "cache", server_url))
        place(lathe, case, shelf.folder(case), home / "project")
        return question_of(lathe.store, case, shelf.truth(case.id), split)


def question_of(store: Store, case: Case, truth: Truth, split: Split) -> Question | str:
    """The task of one case that is in the store, or why it is none."""
    facts = facts_of(store, case)
    case_id = open_case(store, case.id, detect(store, case.id), 0.0)
    if case_id is None:
        return "nothing_found"
    ranked = load_case(store, case_id).ranked
    if not ranked:
        return "no_suspects"
    right = truth.targets if truth.answer == "cause" else ()
    return Question(
        name=f"case_{case.id}",
        split=split,
        words=case.question,
        asked=shown(case.question, facts, ranked),
        right=right,
        within=max(1, len(right)),
        whole=True,
        said=tuple(each.factor.key for each in ranked),
    )


def shown(question: str, facts: Facts, ranked: Sequence[Ranked]) -> dict[str, Any]:
    """Symptoms, the step of the alarm, and the suspects as the ranking reads them; newest first among equals."""
    changes = {each.key: asdict(each) for each in facts.changes}
    return {
        "question": question,
        "symptoms": list(facts.symptoms),
        "found_at": facts.found_at,
        "suspects": [
            {
                "key": each.factor.key, "title": each.factor.title, "reason": each.reason,
                "signs": asdict(each.signs), "change": changes.get(each.factor.key, {}),
            }
            for each in ranked
        ],
    }  # fmt: skip


def settings() -> dict[str, float]:
    """The ranking's weights; and from which score on it names a suspect at all: without re-runs it always does."""
    return {**scoring.WEIGHTS, "least_score": 0.0}


def files() -> dict[str, str]:
    """The scaffold: the debug loop's own scoring and its weights."""
    found = scaffold(
        "diagnosis",
        Path(scoring.__file__),
        settings(),
        {"": ("named others",), "least_score": ("guessed", "gave up")},
    )
    unset = "[parameters.least_score]\nvalues = [0.0]"
    declared = found["scaffold.toml"].replace(unset, unset.replace("[0.0]", "[0.0, 0.05, 0.1, 0.2, 0.4]"))
    return {**found, "scaffold.toml": declared}
