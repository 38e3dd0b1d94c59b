"""Configuration of the data: which samples exist, how they are mixed, and in which order steps read them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.section import Count, NonNegative, Section, Steps

SOURCES = ("library", "packages", "documentation", "encodings")

Weights = tuple[float, ...]


class MixtureConfig(Section):
    """Sampling weights of the corpus sources; only their ratios count.

    `changes` gives other weights from later steps on: `100: library=0 encodings=0.5; 200: library=1`. A source that a
    change does not name keeps its weight. Steps are 0-based: `100` bears on the 101st step. With `data.folder` the
    sources are those that `folders` names, `books=0.5 code=0.5`; without it the four of the standard library.
    """

    library: NonNegative = 0.4
    packages: NonNegative = 0.3
    documentation: NonNegative = 0.2
    encodings: NonNegative = 0.1
    folders: str = ""
    changes: str = ""

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        for step, weights in self.schedule():
            if sum(weights) <= 0:
                raise ValueError(f"data.mixture has no source with a weight above 0 from step {step} on")
        return self

    def sources(self) -> tuple[str, ...]:
        return tuple(_weights(self.folders)) or SOURCES

    def weights(self) -> Weights:
        """Of the first step, in the order of the sources."""
        if self.folders:
            return tuple(_weights(self.folders).values())
        return tuple(float(getattr(self, name)) for name in SOURCES)

    def schedule(self) -> tuple[tuple[int, Weights], ...]:
        """(0-based step, weights from it on), ascending, the first at step 0."""
        changes: list[tuple[int, Weights]] = [(0, self.weights())]
        for text in filter(str.strip, self.changes.split(";")):
            step, weights = _change(text, dict(zip(self.sources(), changes[-1][1], strict=True)))
            if step <= changes[-1][0]:
                raise ValueError(f"data.mixture.changes: step {step} does not come after step {changes[-1][0]}")
            changes.append((step, weights))
        return tuple(changes)

    def at(self, step: int) -> Weights:
        """Weights of a 0-based step, in the order of the sources."""
        return [weights for start, weights in self.schedule() if start <= step][-1]


class DataConfig(Section):
    """Corpus, sequence shape and mixture.

    `documents`: `stream` cuts windows out of each source whatever they hold; `packed` fills rows with whole documents,
    or pieces of those that are longer than a row, and each sees itself only; `answers` packs the prompts and answers
    of the JSONL file `examples`, as bytes whatever the corpus is, and only answers are learned.
    """

    batch_size: Count = 8  # sequences of one optimizer step, over all ranks
    seq_len: Count = 64
    corpus_bytes: Annotated[int, Field(ge=4096)] = 2_000_000  # at most; shared equally by the sources, the rest unread
    stride: Count | None = None  # bytes between the starts of neighbouring samples of a stream; None: seq_len
    shuffle: bool = True  # within each source and epoch
    documents: Literal["stream", "packed", "answers"] = "stream"
    folder: str = ""  # path; its sub-folders are the sources (`mixture.folders`); "": the standard library
    tokenizer: str = ""  # path of a Hugging Face tokenizer.json; "": tokens are bytes
    examples: str = ""  # path; its lines are {"prompt": "...", "answer": "..."}
    balance_window: Steps = 0  # steps whose rows are sorted by attention work (R801-7.9); 0: rows keep their order
    mixture: MixtureConfig = MixtureConfig()

    @model_validator(mode="after")
    def _fields_fit_the_kind(self) -> Self:
        if self.documents == "stream" and self.balance_window:
            raise ValueError("data.balance_window needs rows of unequal work: set data.documents to packed, or it to 0")
        if self.documents != "stream" and self.stride is not None:
            raise ValueError(f"data.stride belongs to a stream; data.documents is {self.documents}")
        if self.tokenizer and self.documents == "answers":
            raise ValueError(
                "data.tokenizer: prompts and answers are read as bytes, so a stage with data.documents answers "
                "belongs to a training in bytes; without data.tokenizer it has them"
            )
        if bool(self.folder) != bool(self.mixture.folders):
            raise ValueError("data.folder and data.mixture.folders belong together: a path, and weights of sub-folders")
        return self

    def source_names(self) -> tuple[str, ...]:
        """What the mixture and the series of each source speak of."""
        return ("answers",) if self.documents == "answers" else self.mixture.sources()


def _change(text: str, weights: dict[str, float]) -> tuple[int, Weights]:
    """Read `100: library=0 encodings=0.5`; sources that are not named keep their weight."""
    head, _, tail = text.partition(":")
    try:
        step, changed = int(head), _parsed(tail)
        if unknown := [name for name in changed if name not in weights]:
            raise ValueError(unknown[0])
    except ValueError as error:
        raise ValueError(
            f"data.mixture.changes: '{text.strip()}' is not like '100: library=0.5 packages=1' ({error}); "
            f"the sources are {', '.join(weights)}"
        ) from error
    return step, tuple((weights | changed).values())


def _weights(folders: str) -> dict[str, float]:
    try:
        return _parsed(folders)
    except ValueError as error:
        raise ValueError(f"data.mixture.folders: '{folders}' is not like 'books=0.5 code=0.5' ({error})") from error


def _parsed(text: str) -> dict[str, float]:
    """Read `books=0.5 code=0.5`."""
    found: dict[str, float] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        weight = float(value)
        if not name or name in found or not 0 <= weight < float("inf"):
            raise ValueError(part)
        found[name] = weight
    return found
