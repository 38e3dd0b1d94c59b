"""What was evaluated, which samples were read, and the text of one sample."""

from __future__ import annotations

from pydantic import Field

from agents import evidence
from agents.tools.protocol import MAX_ROWS, Arguments, Row, ToolResult, result, row
from agents.tools.series import number
from context_store import Store
from context_store.records import Score
from contracts.evidence import EvidenceRef

_HASH_DIGITS = 12


class Scores(Arguments):
    run_id: str | None = None
    benchmark: str | None = None
    metric: str | None = None


class Samples(Arguments):
    run_id: str
    lo: int = Field(ge=0, description="first step")
    hi: int = Field(ge=0, description="last step")


class Document(Arguments):
    document_id: str = Field(min_length=1)


def scores(store: Store, arguments: Scores) -> ToolResult:
    """By benchmark, metric and step. Two of them may be compared only where the protocol and shots are the same."""
    found = store.evals.list(run_id=arguments.run_id, benchmark=arguments.benchmark, metric=arguments.metric)
    return result([score_row(each) for each in found], "no such score is stored")


def score_row(each: Score) -> Row:
    at = f"step {each.step} of run {each.run_id}" if each.run_id else f"checkpoint {each.checkpoint}"
    error = f" ± {number(each.stderr)}" if each.stderr is not None else ""
    shots = "" if each.shots is None else f", {each.shots} shots"
    text = (
        f"{each.benchmark} {each.metric} {number(each.value)}{error} at {at} ({each.protocol}{shots}, {each.harness})"
    )
    return row(text, evidence.numbered("score", each.id))


def samples(store: Store, arguments: Samples) -> ToolResult:
    """Which samples a run read: how many until a step, the hash of their order, and the mixture in force."""
    run_id, lo, hi = arguments.run_id, arguments.lo, arguments.hi
    store.runs.get(run_id)
    reads = store.runs.data_reads(run_id)
    rows = []
    for i in range(len(reads.steps)):
        step = int(reads.steps[i])
        if lo <= step <= hi:
            order, position = reads.hashes[i][:_HASH_DIGITS], int(reads.positions[i])
            text = f"step {step} read samples up to position {position}, order {order}"
            rows.append(row(text, EvidenceRef(kind="run", id=run_id, slice=str(step))))
    weights = store.data.mixture(run_id, hi)
    mixture = ", ".join(f"{source} {number(weight)}" for source, weight in sorted(weights.items()))
    told = [row(f"mixture in force at step {hi}: {mixture}", evidence.run(run_id))] if mixture and rows else []
    return result([*told, *rows], f"nothing is recorded of what run {run_id} read there", MAX_ROWS)


def document(store: Store, arguments: Document) -> ToolResult:
    """Newest stage first, since that text is what a training may read. Raises NotFound."""
    found = store.data.document(arguments.document_id)
    ref = evidence.document(found.id)
    rows = []
    for step in reversed(found.steps):
        said = f"dropped: {step.reason}" if step.after is None else step.after
        rows.append(row(f"sample {found.id} of {found.subset_id} after {step.stage} ({step.level}): {said}", ref))
    return result(rows, f"sample {found.id} has no text")
