"""The typed records of the store, there and back. Shows R801-2.14 (typed schemas with round trips)."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from context_store import records
from contracts.evidence import EvidenceRef

DOCUMENT = Path(__file__).parents[2] / "docs" / "store.md"
TYPES: dict[str, type] = {
    "Evidence": EvidenceRef, "Signal": records.Anomaly, "Hypothesis": records.Suspect,
    "Exclusion": records.NegativeResult, "Diagnosis": records.VerdictRecord, "Fix": records.Proposal,
    "Decision": records.Approval, "LoopCycle": records.LedgerEntry, "CodeVersion": records.Commit,
    "ConfigField": records.ConfigChange, "Subset": records.Subset, "StageTrace": records.StageTrace,
    "StageConfig": records.StageVersion, "Mixture": records.MixtureEvent, "Checkpoint": records.Checkpoint,
    "ProtocolScore": records.Score,
}  # fmt: skip
OF_LOOPS = (
    "Detector", "SFTResult", "LearnCurve", "PromptVersion", "ClassifierVersion", "Site", "CrawlAttempt", "TaskBundle",
    "Trajectory", "CheatFlag", "Pack",
)  # fmt: skip


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_record_is_typed_and_survives_the_way_to_another_process(kind: type) -> None:
    value = sample(kind)
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    assert adapter.validate_json(adapter.dump_json(value)) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(kind)[0].name, None)


def test_every_type_is_named_with_what_keeps_it() -> None:
    section = DOCUMENT.read_text().partition("## Record types")[2]
    assert {name for name in (*TYPES, *OF_LOOPS) if name not in section} == set()


def sample(kind: Any) -> Any:
    """Some value of a type as a field declares it, nothing left at its default."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name]) for field in dataclasses.fields(kind)})  # type: ignore[operator]
    if origin in (typing.Union, types.UnionType):
        return sample(next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        return tuple(sample(each) for each in arguments if each is not Ellipsis)
    if origin in (dict, Mapping):
        return {"key": sample(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    return {str: "text", int: 7, float: 0.5, bool: True, Any: "anything"}[kind]
