"""What the next version tries: a change that the error analysis of the one that stands suggests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

PATIENCE = 3  # versions in a row that were not taken, after which it stops
_SETTINGS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("unbalanced", {"balanced": False}, "both classes count by how often they occur"),
    ("taught", {"taught": True}, "texts without a label teach it too"),
    ("smoother", {"strength": 3.0}, "a stronger penalty on weights"),
    ("sharper", {"strength": 300.0}, "a weaker penalty on weights"),
)


class RevisionKind(StrEnum):
    FIRST = "first"
    STANDING = "standing"  # no change: what is deployed now, measured on this case's set
    LABELS = "labels"  # more texts are labelled, those that say most now
    CHECK = "check"  # labels that look wrong are asked for again
    WITHOUT = "without"  # training leaves out labels that look wrong and cannot be asked for again
    SETTINGS = "settings"
    RULE = "rule"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """`detail`: JSON values that the training reads. `why`: which finding it answers."""

    kind: RevisionKind
    why: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.kind}:{json.dumps(dict(self.detail), sort_keys=True)}"

    def dump(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "why": self.why, "detail": dict(self.detail)}

    @classmethod
    def load(cls, fields: Mapping[str, Any]) -> Revision:
        return cls(kind=RevisionKind(fields["kind"]), why=fields["why"], detail=fields["detail"])


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the error analysis of the version that stands found. `can_ask`: texts of the pool that may still be labelled
    for training, within the budget; `can_check`: a labeller can be asked again; `suspicious`: labels that look wrong
    among `num_labels`, nobody was asked about them again. `rules`: (words, positive, sentence) that held on the
    training texts.
    """

    can_ask: int
    can_check: bool
    suspicious: int
    num_labels: int
    rules: Sequence[tuple[Sequence[str], bool, str]]


def next_revision(found: Findings, tried: Sequence[Revision], taken: Sequence[bool], per_round: int) -> Revision | None:
    """The first that was not tried yet, or None: then it stops. `taken`: of each tried one, oldest first."""
    if len(taken) >= PATIENCE and not any(taken[-PATIENCE:]):
        return None
    known = {each.key for each in tried}
    choices = _candidates(found, 1 + sum(each.kind is RevisionKind.LABELS for each in tried), per_round)
    if tried and tried[-1].kind is RevisionKind.LABELS and not taken[-1]:  # more of the same comes last then
        choices.sort(key=lambda each: each.kind is RevisionKind.LABELS)
    for revision in choices:
        if revision.key not in known:
            return revision
    return None


def _candidates(found: Findings, label_round: int, per_round: int) -> list[Revision]:
    """Each once, but labels: those in every round anew, and what looks wrong among them whenever there are others."""
    choices: list[Revision] = []
    if found.suspicious:
        kind = RevisionKind.CHECK if found.can_check else RevisionKind.WITHOUT
        why = f"{found.suspicious} labels look wrong"
        choices.append(Revision(kind=kind, why=why, detail={"num_labels": found.num_labels}))
    if found.can_ask:
        num = min(per_round, found.can_ask)
        why = f"{num} more texts whose labels would say most"
        choices.append(Revision(kind=RevisionKind.LABELS, why=why, detail={"round": label_round, "num_texts": num}))
    for name, detail, why in _SETTINGS:
        choices.append(Revision(kind=RevisionKind.SETTINGS, why=why, detail={"name": name, **detail}))
    for words, positive, sentence in found.rules:
        rule = {"words": list(words), "positive": positive}
        choices.append(Revision(kind=RevisionKind.RULE, why=sentence, detail=rule))
    return choices
