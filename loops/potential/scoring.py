"""One model on the tasks of a plan: the suite's score, bits per byte, and the fan of protocols, with raw outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from context_store.canonical import canonical_json, content_hash
from loops.evals.bits import Bits, bits_per_byte
from loops.evals.bits import save as save_bits
from loops.evals.checkpoint_model import CheckpointModel
from loops.evals.gaps import findings
from loops.evals.prompts import can_ask
from loops.evals.protocol import protocol
from loops.evals.run import Evaluation, evaluate, save
from loops.evals.task import Task, Text
from loops.evals.tasks import generated, real_text
from loops.potential.plan import FAN_TASKS, SUITE_PROTOCOL, PotentialPlan, fan_protocols


@dataclass(frozen=True, kw_only=True)
class Exam:
    """What every checkpoint of a plan is asked; equal for all of them."""

    suite: tuple[Task, ...]
    fan: tuple[Task, ...]
    texts: tuple[Text, ...]

    @classmethod
    def of(cls, plan: PotentialPlan, corpus_bytes: int) -> Exam:
        """`corpus_bytes`: what the training may have read of this Python's text."""
        suite = (*generated.tasks(plan.num_items), *_of_real_text(plan.num_items, corpus_bytes))
        fan = tuple(task.first(plan.fan_items) for task in suite if task.name in FAN_TASKS)
        return cls(suite=suite, fan=fan, texts=tuple(real_text.texts(corpus_bytes)))

    @property
    def questions(self) -> set[str]:
        """What no SFT may learn from."""
        return {item.question for task in self.suite for item in (*task.items, *task.examples)}

    @property
    def digest(self) -> str:
        tasks = [each.digest for each in (*self.suite, *self.fan)]
        return content_hash([*tasks, *(each.digest for each in self.texts)])


def _of_real_text(num_items: int, corpus_bytes: int) -> list[Task]:
    """Cloze, and which kind of text it is, as far as there is text behind what the training may have read."""
    domains = len(real_text.held_out(corpus_bytes, real_text.TASK_BYTES))
    found = [real_text.cloze(corpus_bytes, num_items)] if domains else []
    return [*found, *([real_text.kinds(corpus_bytes, num_items)] if domains > 1 else [])]


def suite_score(exam: Exam, model: CheckpointModel, folder: Path) -> dict[str, Any]:
    """Mean of the tasks' accuracies in points, each task's, its items, and the file of all raw outputs."""
    done = [evaluate(task, protocol(SUITE_PROTOCOL), model) for task in exam.suite]
    index, digest = _index(done, folder)
    return {
        "score": float(np.mean([100.0 * each.accuracy for each in done])),
        "chance": float(np.mean([_chance(each.task) for each in done])),
        "by_task": {each.task.name: 100.0 * each.accuracy for each in done},
        "items": {each.task.name: _digits(each) for each in done},
        "num_items": sum(len(each.task.items) for each in done),
        "raw": str(index),
        "raw_sha256": digest,
    }


def fan_score(exam: Exam, model: CheckpointModel, folder: Path) -> dict[str, Any]:
    """By protocol: the mean in points, its items, how much could not be read, and the raw outputs; and what differs."""
    done: dict[str, list[Evaluation]] = {}
    for each in fan_protocols(exam.fan):
        done[each.name] = [evaluate(task, each, model) for task in exam.fan if can_ask(task, each)]
    fan = {}
    for name, evaluations in done.items():
        index, _ = _index(evaluations, folder)
        fan[name] = {
            "score": float(np.mean([100.0 * each.accuracy for each in evaluations])),
            "unparsed": float(np.mean([each.unparsed for each in evaluations])),
            "disagreement": float(np.mean([each.disagreement for each in evaluations])),
            "items": "".join(_digits(each) for each in evaluations),
            "by_task": {each.task.name: _digits(each) for each in evaluations},
            "raw": str(index),
        }
    told = [line for task in exam.fan for line in findings([e for es in done.values() for e in es if e.task is task])]
    return {"fan": fan, "findings": told[:40]}


def text_bits(exam: Exam, model: CheckpointModel, folder: Path) -> list[tuple[Bits, Path]]:
    """Bits per byte of each domain of held-out text, and the file of its documents."""
    found = [bits_per_byte(text, model) for text in exam.texts]
    return [(each, save_bits(each, folder)[0]) for each in found]


def _index(done: Sequence[Evaluation], folder: Path) -> tuple[Path, str]:
    """A file that names the raw outputs of each task."""
    rows = []
    for each in done:
        path, digest = save(each, folder)
        row = {"task": each.task.name, "protocol": each.protocol.name, "accuracy": each.accuracy, "file": path.name}
        rows.append(row | {"sha256": digest, "unparsed": each.unparsed, "wrong": each.wrong})
    content = "\n".join(map(canonical_json, rows)) + "\n"
    digest = content_hash(content)
    path = folder / f"index.{digest[:16]}.jsonl"
    path.write_text(content)
    return path, digest


def _chance(task: Task) -> float:
    """Points of who guesses."""
    return 100.0 * float(np.mean([1.0 / len(item.choices) for item in task.items]))


def _digits(evaluation: Evaluation) -> str:
    """A character an item: 1 right, 0 not, for one answer each."""
    return "".join("1" if right else "0" for right in evaluation.right > 0.5)
