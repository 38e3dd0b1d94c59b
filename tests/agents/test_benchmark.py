"""The benchmark of chat grades what it should: on a small file of incidents of our own."""

from __future__ import annotations

import json
from pathlib import Path

from stored_case import Stored

from benchmarks.agents import (
    QUESTIONS,
    demo_facts,
    grade_demo,
    grade_incidents,
    load_incidents,
    read_questions,
    rules_of,
    summary,
)
from context_store import Store

INCIDENTS = [
    {
        "id": "own-1", "symptom": "Throughput of a small model halves over night.",
        "affected_metric": ["tokens_per_second"],
        "what_changed": "A backup job was moved to the night.", "proven_cause": "The backup saturates the shared disk.",
        "cause_kind": "environment", "fix": "Move the backup to another disk.", "source": [],
        "negative_results": [{"tried": "more loader workers", "why_it_failed": "the disk was the limit"}],
    },
    {
        "id": "own-2", "symptom": "Validation loss is too good from the first epoch.", "affected_metric": ["val_loss"],
        "what_changed": "The split was made after shuffling.",
        "proven_cause": "Validation samples leaked into training.",
        "cause_kind": "data", "fix": "Split by document.", "source": [],
        "negative_results": [{"tried": "larger dropout", "why_it_failed": "the leak stays"}],
    },
]  # fmt: skip
ASKED = [
    {"question": "Why did the throughput halve over night?", "about": "own-1", "kinds": ["investigation"]},
    {"question": "What did we try about dropout?", "about": "own-2", "kinds": ["negative"]},
    {
        "question": "Why is the validation loss too good?",
        "about": "own-1",
        "kinds": ["investigation"],
    },  # wrong on purpose
    {"question": "Why did the tokenizer break?", "unknown": True},
    {"question": "Why did the throughput halve over night? ", "unknown": True},  # wrong on purpose
]


def test_incidents_are_graded_by_what_the_first_statement_cites(still_store: Store, tmp_path: Path) -> None:
    file = tmp_path / "incidents.jsonl"
    file.write_text("\n".join(json.dumps(each) for each in INCIDENTS))
    known = load_incidents(still_store, file)
    rows = list(grade_incidents(rules_of(still_store), known, ASKED))
    assert [row.right for row in rows] == [True, True, False, True, False]
    found = summary(rows)
    assert found["answered"] == "2/3"
    assert found["unknown"] == "1/2"
    assert len(found["wrong"]) == 2


def test_questions_over_a_project_name_what_it_holds(still_store: Store, stored: Stored) -> None:
    assert demo_facts(still_store)["culprit"] == stored.commits[2]
    rows = list(grade_demo(still_store, rules_of(still_store), read_questions(QUESTIONS / "demo.jsonl")))
    assert [row.question for row in rows if not row.right] == []


def test_enough_questions_are_written() -> None:
    questions = [each for path in QUESTIONS.glob("*.jsonl") for each in read_questions(path)]
    assert len(questions) >= 60
    assert len({each["question"] for each in questions}) == len(questions)
