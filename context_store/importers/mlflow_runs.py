"""What MLflow's folders, databases and servers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from context_store.importers.configs import parsed
from context_store.importers.items import Ended, Fact
from context_store.importers.tracked_runs import Metric, TrackedRun
from contracts.enums import RunState, TimelineKind
from contracts.events import Scalar

MAX_FLOAT = 1.7976931348623157e308  # how the database writes infinity
_STATES = {"FINISHED": RunState.COMPLETED, "FAILED": RunState.FAILED, "KILLED": RunState.STOPPED}
STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_TAGS = {
    "mlflow.source.git.commit": "git.commit",
    "mlflow.source.git.repoURL": "git.remote",
    "mlflow.source.name": "program",
}


def tracked(
    run_id: str,
    *,
    name: str,
    experiment: str,
    origin: str,
    status: str,
    started_ms: float | None,
    ended_ms: float | None,
    params: Mapping[str, str],
    tags: Mapping[str, str],
    metrics: Mapping[str, Metric],
) -> TrackedRun:
    state = _STATES.get(status)
    ended = Ended(state=state, at=ended_ms / 1000 if ended_ms else None) if state else None
    environment: dict[str, Scalar] = {ours: tags[key] for key, ours in _TAGS.items() if key in tags}
    environment |= {f"tag.{key}": value for key, value in tags.items() if not key.startswith("mlflow.")}
    note = tags.get("mlflow.note.content")
    facts = [Fact(step=0, kind=TimelineKind.NOTE, title=note[:150], detail={"text": note})] if note else []
    return TrackedRun(
        key=f"mlflow:{run_id}",
        name=name or tags.get("mlflow.runName", "") or run_id,
        project=experiment,
        origin=origin,
        metrics=metrics,
        config={key: parsed(value) for key, value in params.items()},
        environment=environment,
        started_at=started_ms / 1000 if started_ms else 0.0,
        ended=ended,
        facts=facts,
    )
