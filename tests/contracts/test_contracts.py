"""Contracts: names, evidence references, framing, errors."""

import math
import pickle
from pathlib import Path

import pytest

from contracts import errors
from contracts.backend import Launch
from contracts.enums import Role
from contracts.errors import LatheError, LogFormatError, UserInputError
from contracts.events import CodeExecuted, Finished, Metrics, decode, encode, read_events
from contracts.evidence import EvidenceRef
from contracts.names import SeriesName


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lm_loss", SeriesName(statistic="lm_loss")),
        ("max_vio/layers.15", SeriesName(statistic="max_vio", module="layers.15", layer=15)),
        (
            "grad_norm/layers.3.attn.q_proj",
            SeriesName(statistic="grad_norm", module="layers.3.attn.q_proj", layer=3),
        ),
        (
            "expert_load/layers.5/experts.7",
            SeriesName(statistic="expert_load", module="layers.5", layer=5, expert=7),
        ),
        ("tokens_per_second@rank=3", SeriesName(statistic="tokens_per_second", rank=3)),
        ("Verlust/Schicht ü", SeriesName(statistic="Verlust", module="Schicht ü")),
    ],
)
def test_names_parse_and_print(text: str, expected: SeriesName) -> None:
    assert SeriesName.parse(text) == expected
    assert str(expected) == text


def test_evidence_references_round_trip_and_reject_nonsense() -> None:
    ref = EvidenceRef(kind="hunk", id="3f2a/balance.py", slice="12..18")
    assert EvidenceRef.parse(str(ref)) == ref
    for bad in ("", "hunk", "hunk:", "magic:1", "hunk:a b"):
        with pytest.raises(UserInputError):
            EvidenceRef.parse(bad)


def test_framed_events_keep_every_float_and_stop_at_a_torn_tail(tmp_path: Path) -> None:
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.1 + 0.2, "e": 5e-324, "ü": -0.0}
    log = tmp_path / "events.log"
    whole = encode(Metrics(step=1, values=values)) + encode(Finished(step=1, reason="completed"))
    log.write_bytes(whole + encode(Metrics(step=2, values={}))[:-5])
    first, second = read_events(log)
    assert isinstance(first.event, Metrics)
    assert [repr(v) for v in first.event.values.values()] == [repr(v) for v in values.values()]
    assert second.end_offset == len(whole)
    assert [r.event for r in read_events(log, offset=first.end_offset)] == [second.event]


def test_a_damaged_event_is_named_by_position(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    good = encode(CodeExecuted(step=2, modules={"a.py": "00"}, lines={"a.py": [1, 2]}))
    log.write_bytes(good + good.replace(b"a.py", b"b.py"))
    with pytest.raises(LogFormatError, match=f"at byte {len(good)}"):
        list(read_events(log))
    with pytest.raises(LogFormatError):
        decode(b"no frame", where="x")


def test_errors_are_picklable_and_carry_a_remedy() -> None:
    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, LatheError)]
    assert len(kinds) > 10
    for kind in kinds:
        error = pickle.loads(pickle.dumps(kind("it broke", remedy="mend it")))
        assert type(error) is kind
        assert str(error) == "it broke\n  remedy: mend it"


def test_launches_round_trip() -> None:
    launch = Launch(run_id="r", segment=1, run_folder="/x", project="/p", code_version="c", overrides={"a.b": 1e-3})
    assert Launch.from_json(launch.to_json()) == launch


def test_roles_include_the_lesser_ones() -> None:
    assert Role.ADMIN.includes(Role.REVIEWER)
    assert not Role.RESEARCHER.includes(Role.REVIEWER)
