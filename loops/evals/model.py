"""The seam to a model under evaluation: our checkpoints, OpenAI-compatible endpoints, scripted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from contracts.events import Scalar


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A text to continue. `chat`: through the model's chat template; `starts`: its first token before the text."""

    text: str
    prefill: str = ""
    stop: tuple[str, ...] = ()
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    chat: bool = False
    starts: bool = False


@dataclass(frozen=True, kw_only=True)
class Written:
    """`finish`: "stop" (a stop word, named in `stopped_by`, or the model's own end) or "length"."""

    text: str
    finish: str
    stopped_by: str = ""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Log-likelihood (nats) of a continuation, summed over its `num_tokens` tokens."""

    logprob: float
    num_tokens: int


class EvaluatedModel(Protocol):
    """Raises EnvironmentFault or ModelUnavailable where the model cannot be reached."""

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, Scalar]:
        """What the numbers depend on beside the weights: backend, version, dtype, batch size, threads."""
        ...

    def tokens(self, asked: Asked) -> tuple[Sequence[int], int | None] | None:
        """Ids of the prompt as the model reads it, and the id of its first token; None where it does not tell."""
        ...

    def weigh(self, asked: Sequence[Asked], continuations: Sequence[str]) -> list[Weighed]: ...

    def write(self, asked: Sequence[Asked]) -> list[Written]: ...


def cut(text: str, stop: Sequence[str]) -> tuple[str, str]:
    """`text` before the earliest stop word, and that word; ("text", "") without one."""
    found = [(text.index(word), word) for word in stop if word and word in text]
    return (text[: min(found)[0]], min(found)[1]) if found else (text, "")
