"""Evidence references of what the store holds, made in one place so that the same thing is cited the same way."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from context_store.records import Commit, Hunk, TimelineEvent
from contracts.evidence import EvidenceRef

_RANGE = re.compile(r"^(-?\d+)\.\.(-?\d+)$")


def series(run_id: str, name: str, lo: int, hi: int) -> EvidenceRef:
    """The points lo..hi of one series."""
    return EvidenceRef(kind="series", id=f"{run_id}/{quote(name, safe='')}", slice=f"{lo}..{hi}")


def series_of(ref: EvidenceRef) -> tuple[str, str]:
    """(run id, series name) of a series reference."""
    run_id, _, name = ref.id.rpartition("/")
    return run_id, unquote(name)


def run(run_id: str) -> EvidenceRef:
    return EvidenceRef(kind="run", id=run_id)


def event(each: TimelineEvent) -> EvidenceRef:
    return EvidenceRef(kind="event", id=str(each.id))


def config(run_id: str, key: str, segment: int) -> EvidenceRef:
    """A declared field; those of the environment are named `environment.KEY`."""
    return EvidenceRef(kind="config", id=f"{run_id}/{quote(key, safe='.')}", slice=str(segment))


def commit(each: Commit) -> EvidenceRef:
    return EvidenceRef(kind="commit", id=each.hash)


def hunk(each: Hunk) -> EvidenceRef:
    lines = f"{each.new_start}..{each.new_start + each.new_lines}"
    return EvidenceRef(kind="hunk", id=f"{each.commit[:12]}/{quote(each.path, safe='/')}", slice=lines)


def document(document_id: str) -> EvidenceRef:
    return EvidenceRef(kind="document", id=quote(document_id, safe=":/."))


def numbered(kind: str, number: int) -> EvidenceRef:
    """An anomaly, a verdict or a negative result."""
    return EvidenceRef(kind=kind, id=str(number))


def part_of_case(kind: str, case_id: str, key: str) -> EvidenceRef:
    """A suspect or a diagnostic."""
    return EvidenceRef(kind=kind, id=f"{case_id}/{quote(key, safe=':.')}")


def case(case_id: str) -> EvidenceRef:
    return EvidenceRef(kind="investigation", id=case_id)


def proposal(proposal_id: str) -> EvidenceRef:
    return EvidenceRef(kind="proposal", id=proposal_id)


def within(inner: EvidenceRef, outer: EvidenceRef) -> bool:
    """True when `inner` is `outer`, or points to steps or lines inside it."""
    if (inner.kind, inner.id) != (outer.kind, outer.id):
        return False
    if inner.slice == outer.slice or not outer.slice:
        return True
    small, large = _RANGE.match(inner.slice), _RANGE.match(outer.slice)
    return bool(small and large and int(large[1]) <= int(small[1]) and int(small[2]) <= int(large[2]))
