"""A pipeline as a row of its stages, each with its level and how much of what came in it kept."""

from __future__ import annotations

from collections.abc import Sequence

from ui.catalog import Pipeline, Stage, StageTrace, Subset
from ui.components.markup import escape


def render(pipeline: Pipeline, subsets: Sequence[Subset]) -> str:
    """HTML; stages in the order in which they run."""
    items = "".join(_stage(stage, subsets) for stage in pipeline.stages)
    return f'<ol class="lt-pipeline" aria-label="stages of {escape(pipeline.id)}">{items}</ol>'


def _stage(stage: Stage, subsets: Sequence[Subset]) -> str:
    traces = [trace for subset in subsets for trace in subset.trace if trace.stage == stage.key]
    versions = {trace.code_version for trace in traces}
    code = f"{len(versions)} code versions" if len(versions) > 1 else "".join(version[:10] for version in versions)
    return (
        f'<li class="lt-{escape(stage.level)}"><b>{escape(stage.level)}</b><div>{escape(stage.title)}'
        f"<small>{escape(stage.key)}</small></div><span>{kept(_sum(stage.key, traces))}</span>"
        f"<small>{escape(code) or 'no subset went through'}</small></li>"
    )


def _sum(key: str, traces: Sequence[StageTrace]) -> StageTrace:
    """All that went through a stage; a count that one of them lacks is not known."""
    going_in, out = [t.num_in for t in traces], [t.num_out for t in traces]
    return StageTrace(stage=key, code_version="", num_in=_total(going_in), num_out=_total(out))


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def kept(trace: StageTrace) -> str:
    """Documents out of documents in, and the share; "" where nothing was counted."""
    if trace.num_out is None:
        return ""
    if not trace.num_in:
        return f"{trace.num_out:,} documents"
    return f"{trace.num_out:,} of {trace.num_in:,} ({100 * trace.num_out / trace.num_in:.3g} %)"
