"""Runs as MLflow sees them: a second sink beside the store. The store stays the truth; MLflow gets a copy.

A run becomes an MLflow run of the experiment that is named as its project: parameters of its first start, series of the
whole model (no layers, experts or ranks), its state, and each checkpoint as a logged model at its step; the last
checkpoint of a completed run becomes a version of the registered model of the project. Files are named, not copied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from context_store import Store
from context_store.records import Checkpoint, Run, Segment
from context_store.redaction import redact
from contracts.enums import RunState
from contracts.errors import EnvironmentFault
from contracts.names import SeriesName

if TYPE_CHECKING:
    from mlflow import MlflowClient

RUN_TAG, _REACHED, _SAVED, _NEWEST = "lathe.run_id", "lathe.reached", "lathe.saved", "lathe.newest"
_MODEL = "lathe.model"
_STATES = {RunState.COMPLETED: "FINISHED", RunState.FAILED: "FAILED", RunState.STOPPED: "KILLED"}
_METRICS_A_BATCH, _PARAMS_A_BATCH, _MAX_PARAM, _MAX_KEY = 1000, 100, 6000, 250


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """What one call added to the copy of a run."""

    run_id: str
    mlflow_run_id: str
    num_metrics: int
    num_checkpoints: int


class MlflowSink:
    """Idempotent: how far a run was copied stands in its tags there. One process at a time copies a run.

    The login is MLflow's own: MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN, or ~/.mlflow/credentials.
    """

    def __init__(self, store: Store, uri: str) -> None:
        self._store = store
        self._uri = uri

    def mirror(self, run: Run) -> Mirrored | None:
        """Add what is new. None before the first event: what an MLflow run is told at its start is not known then.

        Raises EnvironmentFault when MLflow does not answer or refuses.
        """
        segments = self._store.runs.segments(run.id)
        if not segments:
            return None
        with _explained(self._uri):
            copy = self._copy(run, segments)
            metrics = self._add_metrics(run, segments, copy)
            models = self._add_checkpoints(run, copy)
            self._register(run, copy)
            self._set_state(run, copy)
        return Mirrored(run_id=run.id, mlflow_run_id=copy.info.run_id, num_metrics=metrics, num_checkpoints=len(models))

    @cached_property
    def _client(self) -> MlflowClient:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # else it waits minutes; we come again anyway
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)

    def _copy(self, run: Run, segments: Sequence[Segment]) -> Any:
        """The MLflow run; a new one gets its parameters."""
        found = self._client.get_experiment_by_name(run.project_id)
        experiment = found.experiment_id if found else self._client.create_experiment(run.project_id)
        copies = self._client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run.id}'", max_results=1)
        if copies:
            return copies[0]
        first = segments[0]
        tags = {RUN_TAG: run.id, "mlflow.source.git.commit": first.code_version, "lathe.role": run.role.value}
        copy = self._client.create_run(
            experiment, start_time=int(1000 * (first.started_at or run.created_at)), tags=tags, run_name=run.name
        )
        self._add_params(run, first, copy.info.run_id)
        return copy

    def _add_params(self, run: Run, first: Segment, mlflow_run_id: str) -> None:
        from mlflow.entities import Param

        declared = {"seed": first.seed, **self._store.runs.declared(run.id, first.number)}
        params = [Param(_key(key), str(value)[:_MAX_PARAM]) for key, value in sorted(declared.items())]
        for start in range(0, len(params), _PARAMS_A_BATCH):
            self._client.log_batch(mlflow_run_id, params=params[start : start + _PARAMS_A_BATCH])

    def _add_metrics(self, run: Run, segments: Sequence[Segment], copy: Any) -> int:
        """Canonical points behind what was copied; a resume that went back copies its steps again."""
        from mlflow.entities import Metric

        newest = segments[-1]
        number, reached = _place(copy, _REACHED)
        lo = reached + 1 if number == newest.number else min(reached, newest.start_step) + 1
        began_ms = int(1000 * (newest.started_at or run.created_at))
        found = [
            Metric(_key(name), float(value), began_ms + int(step), int(step))
            for name in self._store.series.names(run.id)
            if _is_of_the_whole(name)
            for data in [self._store.series.read(run.id, name, lo=lo)]
            for step, value in zip(data.steps.tolist(), data.values.tolist(), strict=True)
        ]
        found.sort(key=lambda metric: metric.step)
        for start in range(0, len(found), _METRICS_A_BATCH):
            self._client.log_batch(copy.info.run_id, metrics=found[start : start + _METRICS_A_BATCH])
        last = max([reached if number == newest.number else newest.start_step, *(metric.step for metric in found)])
        self._client.set_tag(copy.info.run_id, _REACHED, f"{newest.number}:{last}")
        return len(found)

    def _add_checkpoints(self, run: Run, copy: Any) -> list[Checkpoint]:
        from mlflow.entities import LoggedModelOutput

        before = _place(copy, _SAVED)
        new = [each for each in self._store.runs.checkpoints(run.id) if (each.segment, each.step) > before]
        for each in sorted(new, key=lambda checkpoint: (checkpoint.segment, checkpoint.step)):
            tags = {"lathe.path": each.path, "lathe.sha256": each.sha256, "lathe.segment": str(each.segment)}
            model = self._client.create_logged_model(
                copy.info.experiment_id, f"step-{each.step:06d}", copy.info.run_id, tags, model_type="checkpoint"
            )
            self._client.finalize_logged_model(model.model_id, "READY")
            self._client.log_outputs(copy.info.run_id, [LoggedModelOutput(model.model_id, each.step)])
            self._client.set_tag(copy.info.run_id, _NEWEST, model.model_id)
            self._client.set_tag(copy.info.run_id, _SAVED, f"{each.segment}:{each.step}")
        return new

    def _register(self, run: Run, copy: Any) -> None:
        """The last checkpoint of a completed run, once."""
        tags = self._client.get_run(copy.info.run_id).data.tags
        if run.state is not RunState.COMPLETED or _NEWEST not in tags or _MODEL in tags:
            return
        model = self._client.get_logged_model(tags[_NEWEST])
        name = _key(run.project_id)
        if not self._client.search_registered_models(f"name = '{name}'"):
            self._client.create_registered_model(name)
        said = {RUN_TAG: run.id, **{key: model.tags[key] for key in ("lathe.path", "lathe.sha256")}}
        version = self._client.create_model_version(
            name, model.artifact_location, copy.info.run_id, said, model_id=model.model_id
        )
        self._client.set_tag(copy.info.run_id, _MODEL, f"{name} version {version.version}")

    def _set_state(self, run: Run, copy: Any) -> None:
        wanted = _STATES.get(run.state, "RUNNING")
        if copy.info.status == wanted:
            return
        if wanted == "RUNNING":
            self._client.update_run(copy.info.run_id, status=wanted)
        else:
            self._client.set_terminated(copy.info.run_id, wanted)


def _is_of_the_whole(name: str) -> bool:
    parsed = SeriesName.parse(name)
    return parsed.layer is None and parsed.expert is None and parsed.rank is None


def _place(copy: Any, tag: str) -> tuple[int, int]:
    """(segment, step) up to which it was copied; before everything for a new run."""
    number, _, step = copy.data.tags.get(tag, "-1:-1").partition(":")
    return int(number), int(step)


def _key(name: str) -> str:
    """As MLflow takes it: letters, digits and _-./ and blanks, 250 at most."""
    return re.sub(r"[^\w./ -]", "_", name)[:_MAX_KEY]


@contextmanager
def _explained(uri: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException

    try:
        yield
    except (MlflowException, RequestException) as error:
        where = redact(uri)
        raise EnvironmentFault(
            f"MLflow at {where}: {str(error).replace(uri, where).splitlines()[0][:300]}",
            remedy="start it, or correct LATHE_MLFLOW_URI or its login (MLFLOW_TRACKING_USERNAME and _PASSWORD, or "
            "_TOKEN); nothing is lost, the copy goes on where it stopped",
        ) from error
