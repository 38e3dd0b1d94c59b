"""A model that answers by rule: to show how a protocol reads what a real model is known to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contracts.events import Scalar
from loops.evals.model import Asked, Weighed, Written, cut


@dataclass(frozen=True, kw_only=True)
class ScriptedModel:
    """`says` is what it would write if nothing stopped it; `likes` the log-likelihood of a continuation."""

    name: str
    says: Callable[[Asked], str]
    likes: Callable[[Asked, str], float] = lambda asked, continuation: -float(len(continuation))
    start: int | None = None

    @property
    def facts(self) -> Mapping[str, Scalar]:
        return {"backend": "scripted", "first_token": "none" if self.start is None else self.start}

    def tokens(self, asked: Asked) -> tuple[Sequence[int], int | None]:
        start = [self.start] if asked.starts and self.start is not None else []
        return [*start, *asked.text.encode()], self.start

    def weigh(self, asked: Sequence[Asked], continuations: Sequence[str]) -> list[Weighed]:
        pairs = zip(asked, continuations, strict=True)
        return [Weighed(logprob=self.likes(one, text), num_tokens=len(text.encode())) for one, text in pairs]

    def write(self, asked: Sequence[Asked]) -> list[Written]:
        return [_written(self.says(each), each) for each in asked]


def _written(text: str, asked: Asked) -> Written:
    within = text.encode()[: asked.max_tokens].decode("utf-8", "ignore")
    kept, word = cut(within, asked.stop)
    ended = bool(word) or len(within) == len(text)
    return Written(text=kept, finish="stop" if ended else "length", stopped_by=word)
