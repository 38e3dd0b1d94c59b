"""A model of a few thousand parameters, segments of it in this process, and real child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from contracts.backend import Launch
from contracts.events import Event, Finished, Metrics, Scalar, read_events, segment_folder
from trainer import Parts, Recipe, TrainConfig
from trainer.executed import ExecutionRecord
from trainer.runlog import RunLog
from trainer.segment import Segment

SMALL: dict[str, Scalar] = {
    "steps": 6,
    "model.num_layers": 2,
    "model.d_model": 16,
    "model.num_heads": 2,
    "model.num_kv_heads": 1,
    "model.head_dim": 8,
    "moe.num_experts": 4,
    "moe.d_expert": 8,
    "data.batch_size": 8,
    "data.seq_len": 16,
    "data.corpus_bytes": 40_000,
    "parallel.dp_size": 2,
    "schedule.warmup_steps": 1,
    "checkpoint.every": 2,
}
PROJECT = """from trainer import Recipe, TrainConfig


def recipe():
    return Recipe(
        config=TrainConfig().with_overrides({small}),
    )
"""
CLOCK = ("step_time_s", "tokens_per_second")


def small_config(**overrides: Scalar) -> TrainConfig:
    """The small config; keyword `moe__top_k` stands for the field `moe.top_k`."""
    return TrainConfig().with_overrides(SMALL | {k.replace("__", "."): v for k, v in overrides.items()})


@dataclass(frozen=True)
class Trace:
    """What a segment left behind."""

    events: tuple[Event, ...]
    console: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[int, dict[str, float]]:
        """Values by step, without those of the clock."""
        steps = (event for event in self.events if isinstance(event, Metrics))
        return {e.step: {k: v for k, v in e.values.items() if k not in CLOCK} for e in steps}

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def read_log(run_folder: Path, segment: int = 0) -> Trace:
    path = segment_folder(run_folder, segment) / "events.log"
    return Trace(events=tuple(read.event for read in read_events(path)))


@dataclass(frozen=True)
class Trainings:
    """Runs segments of a run folder in this process or in a child."""

    run_folder: Path
    project: Path

    def launch(self, **fields: object) -> Launch:
        launch = Launch(
            run_id=self.run_folder.name,
            segment=0,
            run_folder=str(self.run_folder),
            project=str(self.project),
            code_version="",
        )
        return replace(launch, **fields)  # type: ignore[arg-type]

    def here(self, config: TrainConfig, parts: Parts | None = None, **fields: object) -> Trace:
        """Run a segment in this process."""
        launch, lines = self.launch(**fields), list[str]()
        log = RunLog(segment_folder(self.run_folder, launch.segment))
        recipe = Recipe(config=config, parts=parts or Parts())
        record = ExecutionRecord(self.project)
        record.start()
        try:
            Segment(launch, recipe, log, record, lambda: False, lines.append).run()
        finally:
            record.stop()
            log.close()
        return Trace(events=read_log(self.run_folder, launch.segment).events, console=tuple(lines))

    def start(self, **fields: object) -> subprocess.Popen[str]:
        """Start a child process."""
        launch = self.launch(**fields)
        self.run_folder.mkdir(parents=True, exist_ok=True)
        path = self.run_folder / "launch.json"
        path.write_text(launch.to_json())
        return subprocess.Popen(
            [sys.executable, "-m", "trainer.child", str(path)],
            cwd=self.project,
            env=os.environ | {"PYTHONPATH": str(self.project), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.detach().contiguous().numpy().tobytes() == b.detach().contiguous().numpy().tobytes()
