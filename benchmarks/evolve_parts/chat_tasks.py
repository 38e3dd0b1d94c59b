"""The chat without a model as a scaffold, and written questions over the published incidents as its tasks.

Exported are the questions whose answer the weights decide. What is fixed before it (the reading of the question, the
passages, what a case lacks) is shown as it was read; what rules alone answer is left out, and counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.chat import ChatContext, Retrieval, deciding
from agents.chat.answer import Answer
from agents.chat.answerable import Answerable
from agents.chat.meaning import Meaning
from agents.chat.passages import Passage
from agents.chat.questions import Asked
from agents.chat.weighing import Scale, Weighed, all_of
from agents.chat.weights import NEAR, RULES_FIRST, WEIGHTS
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.written import Over, World, Written
from benchmarks.evolve_parts.exporting import Question, scaffold
from context_store import Store
from loops.evolve.tasks import Split

SPLITS: Mapping[str, Split] = {
    "own": Split.FIX, "own_2": Split.FIX,
    "held_out": Split.GATE, "held_out_2": Split.GATE, "held_out_3": Split.GATE,
    "held_out_4": Split.SEALED, "held_out_5": Split.SEALED,
}  # fmt: skip
_FAR = 1e9


@dataclass(frozen=True, kw_only=True)
class Considered:
    """What the chat had read when it began to decide. `first`: the evidence of what the rules put first."""

    asked: Asked
    weighed: Weighed
    general: bool
    first: str


class Watched(Retrieval):
    """The chat, which keeps what it decides on; None where rules alone answer."""

    considered: Considered | None = None

    def answer(self, question: str, context: ChatContext) -> Answer:
        self.considered = None
        return super().answer(question, context)

    def _gap(self, asked: Asked, context: ChatContext, weighed: Weighed, by_rules: Answer) -> str:
        first = "".join(str(ref) for each in by_rules.statements[:1] for ref in each.evidence[:1])
        general = self._places.is_general(asked)
        self.considered = Considered(asked=asked, weighed=weighed, general=general, first=first)
        return super()._gap(asked, context, weighed, by_rules)


def exported(
    store: Store, world: World, files: Mapping[str, Sequence[Written]]
) -> tuple[list[Question], dict[str, int]]:
    """The tasks, and how many questions are none: `by_rules` alone answers them, or no passage is `unreachable`."""
    chat, left_out = Watched(store, Toolbox(store, READING)), {"by_rules": 0, "unreachable": 0}
    found: dict[str, Question] = {}
    for name, written in files.items():
        for each in written:
            if each.over is not Over.INCIDENTS:
                continue
            said = chat.answer(each.question, ChatContext())
            question = _question(store, world, SPLITS[name], each, chat.considered)
            if isinstance(question, str):
                left_out[question] += 1
            else:
                first = tuple(str(ref) for statement in said.statements[:1] for ref in statement.evidence[:1])
                found.setdefault(question.name, replace(question, said=first))
    return list(found.values()), left_out


def _question(store: Store, world: World, split: Split, written: Written, seen: Considered | None) -> Question | str:
    if seen is None:
        return "by_rules"
    right = [
        _id(passage)
        for passage in seen.weighed.passages
        if any(world.is_named(ref, name) for ref in passage.row.evidence for name in written.evidence)
    ]
    if not right and not written.unknown:
        return "unreachable"
    return Question(
        name=f"chat_{hashlib.sha256(written.question.encode()).hexdigest()[:10]}",
        split=split,
        words=written.question,
        asked=shown(store, seen),
        right=tuple(right),
    )


def shown(store: Store, seen: Considered) -> dict[str, Any]:
    """What the task shows: features of cases and passages with their texts, and nothing of what is right."""
    asked, passages = seen.asked, seen.weighed.passages
    known_runs = [each.id for each in store.runs.list(limit=1000)]
    scale = Scale(store.embedder, asked, passages, Meaning(store.embedder).closeness(asked.reading.asks, known_runs))
    candidates = scale.candidates
    return {
        "question": asked.text,
        "slot": str(asked.reading.slot),
        "rules": seen.first,
        "cases": [
            {"id": case_id, "features": scale.of_case(case_id).tolist(), **_standing(store, seen, case_id)}
            for case_id in dict.fromkeys(each.case_id for each in passages)
        ],
        "passages": [
            {
                "id": _id(each), "case": each.case_id, "part": str(each.part), "fits": candidate.fits,
                "features": list(candidate.features), "text": each.row.text,
            }
            for each, candidate in zip(passages, candidates, strict=True)
        ],
    }  # fmt: skip


def _standing(store: Store, seen: Considered, case_id: str) -> dict[str, bool]:
    """Were this case the one that is meant: `lacks` what is asked for, `sure` however far it is."""
    own = tuple(each for each in seen.weighed.passages if each.case_id == case_id)
    answerable = Answerable(store.embedder)
    as_meant = replace(seen.weighed, leading=own, told=all_of(own), case_near=-_FAR)
    sure = not answerable.of_a_case(seen.asked, as_meant, general=seen.general)
    near = replace(as_meant, case_near=_FAR)
    return {"lacks": not sure and bool(answerable.of_a_case(seen.asked, near, general=seen.general)), "sure": sure}


def _id(passage: Passage) -> str:
    return str(passage.row.evidence[0])


def settings() -> dict[str, float]:
    """The chat's weights, one a name."""
    flat = {f"case_{name}": value for name, value in zip(deciding.CASE_FEATURES, WEIGHTS.case, strict=True)}
    flat |= {f"passage_{name}": value for name, value in zip(deciding.PASSAGE_FEATURES, WEIGHTS.passage, strict=True)}
    flat |= {f"part_{part}": value for part, value in WEIGHTS.part.items()}
    flat |= {f"form_{part}": value for part, value in WEIGHTS.form.items()}
    flat |= {f"slot_{slot}_{part}": value for slot, table in WEIGHTS.slot.items() for part, value in table.items()}
    return {**flat, "least_near": NEAR, "rules_first": RULES_FIRST}


def files() -> dict[str, str]:
    """The scaffold: the chat's own deciding code and weights."""
    return scaffold(
        "chat",
        Path(deciding.__file__),
        settings(),
        {"": ("named others",), "least_near": ("guessed", "gave up")},
    )
