"""The same evaluation again, at the same and at other batch sizes: what is equal to the byte, and what only nearly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from context_store.canonical import content_hash
from contracts.errors import UserInputError
from loops.evals.model import EvaluatedModel
from loops.evals.protocol import Protocol
from loops.evals.run import Evaluation, evaluate
from loops.evals.task import Task


@dataclass(frozen=True, kw_only=True)
class Flip:
    """An item that is right under one batch size and not under another."""

    item: str
    batch_size: str
    was_right: bool


@dataclass(frozen=True, kw_only=True)
class Replay:
    """`is_byte_equal`: the first model twice. `max_delta`: of any option's log-probability, against the others."""

    is_byte_equal: bool
    max_delta: float
    num_logprobs: int
    flips: tuple[Flip, ...]


def replay(task: Task, protocol: Protocol, models: Sequence[EvaluatedModel]) -> Replay:
    """`models`: the same one with different batch sizes. Raises UserInputError for fewer than two."""
    if len(models) < 2:
        raise UserInputError("a replay compares batch sizes", remedy="give the model with at least two of them")
    first, *others = [evaluate(task, protocol, model) for model in models]
    again = evaluate(task, protocol, models[0])
    deltas = [np.abs(_logprobs(first) - _logprobs(other)) for other in others]
    return Replay(
        is_byte_equal=_bytes(first) == _bytes(again),
        max_delta=max((float(delta.max()) for delta in deltas if delta.size), default=0.0),
        num_logprobs=sum(delta.size for delta in deltas),
        flips=tuple(flip for other in others for flip in _flips(first, other)),
    )


def _flips(first: Evaluation, other: Evaluation) -> list[Flip]:
    batch = str(other.facts.get("batch_size"))
    pairs = zip(first.outputs, other.outputs, strict=True)
    return [Flip(item=one.item, batch_size=batch, was_right=one.right) for one, two in pairs if one.right != two.right]


def _logprobs(done: Evaluation) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([value for output in done.outputs for value in output.logprobs], dtype=np.float64)


def _bytes(done: Evaluation) -> str:
    return content_hash([asdict(output) for output in done.outputs])
