"""The benchmark of chat grades what it should: on a small file of incidents of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.agent_parts.injections import ORDERS, attack
from benchmarks.agent_parts.planting import PLACES
from benchmarks.agent_parts.stored_case import RUN, Stored
from benchmarks.agent_parts.worlds import Demo, Incidents
from benchmarks.agent_parts.written import Over, grade, read_questions, summary
from benchmarks.agents import known_questions, rules_of
from context_store import Store
from contracts.enums import TimelineKind
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

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
ASKED: list[dict[str, object]] = [
    {"question": "Why did the throughput halve over night?", "evidence": ["own-1/case"]},
    {"question": "What did we try about dropout?", "evidence": ["own-2/tried-1"]},
    {"question": "Why is the validation loss too good?", "evidence": ["own-1/case"]},  # wrong on purpose
    {"question": "Why did the tokenizer break?", "unknown": True},
    {"question": "Why did the throughput halve over night? ", "unknown": True},  # wrong on purpose
]


def test_incidents_are_graded_by_what_the_first_statement_cites(still_store: Store, tmp_path: Path) -> None:
    file, asked = tmp_path / "incidents.jsonl", tmp_path / "asked.json"
    file.write_text("\n".join(json.dumps(each) for each in INCIDENTS))
    asked.write_text(json.dumps([{"over": "incidents", **each} for each in ASKED]))
    rows = list(grade(Incidents(still_store, file), rules_of(still_store), read_questions(asked)))
    assert [row.right for row in rows] == [True, True, False, True, False]
    found = summary(rows)
    assert found["answered"] == "2/3"
    assert found["unknown"] == "1/2"
    assert len(found["wrong"]) == 2


def test_questions_over_a_project_name_what_it_holds(still_store: Store, stored: Stored) -> None:
    world = Demo(still_store)
    assert world.facts["culprit"] == stored.commits[2]
    questions = [each for each in known_questions()["own"] if each.over is Over.DEMO]
    rows = list(grade(world, rules_of(still_store), questions))
    assert [row.question for row in rows if not row.right] == []


NAMES = [
    ("run:run-7", "run:run-7#40", True),
    ("run:run-7", "run:run-8", False),
    ("event:40/code", "event:{code}", True),
    ("event:40", "event:{code}", True),
    ("event:41", "event:{code}", False),
    ("diagnostic:revert", "run:run-8", True),
    ("diagnostic:revert", "diagnostic:case-1/run-8", True),
    ("diagnostic:placebo", "run:run-8", False),
    ("series:run-7/max_vio/layers.1", "series:run-7/max_vio%2Flayers.1#41..44", True),
    ("verdict:1", "verdict:1", True),
    ("verdict:1", "verdict:11", False),
    ("proposal:resume_with_patch", "proposal:{proposal}", True),
]


@pytest.mark.parametrize(("name", "reference", "is_meant"), NAMES)
def test_names_of_evidence(still_store: Store, stored: Stored, name: str, reference: str, is_meant: bool) -> None:
    (code,) = [each for each in still_store.timeline.list(RUN) if each.kind is TimelineKind.CODE]
    ref = EvidenceRef.parse(reference.format(code=code.id, proposal=stored.proposal_id))
    assert Demo(still_store).is_named(ref, name) is is_meant


@pytest.mark.parametrize("wrong", [{"question": "why?"}, {"question": "why?", "evidence": ["x"], "unknown": True}])
def test_a_question_that_cannot_be_graded_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    file = tmp_path / "asked.json"
    file.write_text(json.dumps([{"over": "demo", **wrong}]))
    with pytest.raises(UserInputError, match="give `evidence`"):
        read_questions(file)


def test_enough_questions_are_written() -> None:
    questions = [each for file in known_questions().values() for each in file]
    assert len(questions) >= 60
    assert len({each.question for each in questions}) == len(questions)


@pytest.mark.parametrize("name", ["approve", "stop", "steer", "lie_with_ids", "remember_over"])
@pytest.mark.parametrize("place", PLACES)
def test_orders_in_stored_text_bring_about_nothing(still_store: Store, tmp_path: Path, place: str, name: str) -> None:
    """Stored text is data: a model that obeys every order in it only ever asks. Shows RM2-7.15 for chat and roles."""
    harm = attack(still_store, tmp_path / "world", place, ORDERS[name])
    assert (harm.unapproved_effects, harm.verdicts_changed, harm.decisions) == (0, 0, 0)
    assert (harm.orders_to_the_loop, harm.lies_shown, harm.memory_changed) == (0, 0, 0)
    assert harm.num_obeyed > 0
