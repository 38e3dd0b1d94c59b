"""Real text of the running Python, none of which a training of `load_corpus` with fewer bytes has read.

Domains: `code` and `packages` (modules of the library) and `documentation` (what `help()` shows). The tables of
character sets are left out: they repeat each other. The text is the interpreter's, so the source names its version.
"""

from __future__ import annotations

import platform
import random
import re
from collections.abc import Mapping
from functools import lru_cache

from contracts.errors import UserInputError
from loops.evals.task import Item, Task, Text
from trainer.corpus import load_corpus
from trainer.data_config import SOURCES

VERSION = 1
_SOURCES = {"code": 0, "packages": 1, "documentation": 2}  # places in trainer.data_config.SOURCES
_ALL_BYTES = 40_000_000
_LINE = re.compile(r"[ -~]{40,120}")
_NUM_EXAMPLES = 8
TASK_BYTES = 65_536  # of each domain that questions are drawn from


@lru_cache(maxsize=2)
def held_out(trained_bytes: int, bytes_each: int) -> Mapping[str, bytes]:
    """The last `bytes_each` of each source that lie behind what a corpus of `trained_bytes` in all reads.

    A source that has nothing left behind it is missing.
    """
    share = trained_bytes // len(SOURCES)
    sources = load_corpus(_ALL_BYTES).sources
    found = {}
    for name, index in _SOURCES.items():
        rest = sources[index][share:]
        if len(rest) >= bytes_each:
            found[name] = rest[-bytes_each:].tobytes()
    return found


def texts(trained_bytes: int, bytes_each: int = 16_384) -> list[Text]:
    """Held-out text of each domain, in documents of 1,024 characters."""
    source = f"Python {platform.python_version()} standard library"
    return [
        Text(
            name=f"bits_{name}",
            version=VERSION,
            documents=tuple(text[start : start + 1024] for start in range(0, len(text), 1024)),
            source=source,
        )
        for name, content in held_out(trained_bytes, bytes_each).items()
        for text in [content.decode("utf-8", "ignore")]
    ]


def cloze(trained_bytes: int, num_items: int, seed: int = 0) -> Task:
    """Which word ends a line of held-out documentation and code; the others end other lines."""
    rng = random.Random(f"cloze {seed}")
    lines = [line for text in _unread(trained_bytes).values() for line in _lines(text)]
    rng.shuffle(lines)
    pairs = [(head, last) for head, _, last in (line.rpartition(" ") for line in lines) if last.isalpha()]
    words = sorted({last for _, last in pairs})
    items = [
        _cloze_item(n, head, last, words, rng) for n, (head, last) in enumerate(pairs[: num_items + _NUM_EXAMPLES])
    ]
    return _task("cloze", items, seed)


def kinds(trained_bytes: int, num_items: int, seed: int = 0) -> Task:
    """Classification as generation: which kind of text an excerpt is."""
    rng = random.Random(f"kinds {seed}")
    parts = _unread(trained_bytes)
    choices = tuple(sorted(parts))
    items = []
    for number in range(num_items + _NUM_EXAMPLES):
        kind = choices[number % len(choices)]
        text = rng.choice(_lines(parts[kind]))
        question = f"What kind of text is this: {text}"
        items.append(Item(id=f"kinds-{number}", question=question, answer=kind, choices=choices))
    return _task("kinds", items, seed)


def _unread(trained_bytes: int) -> Mapping[str, bytes]:
    found = held_out(trained_bytes, TASK_BYTES)
    if not found:
        raise UserInputError(
            f"a training of {trained_bytes} bytes has read all text of this Python", remedy="ask generated tasks"
        )
    return found


def _cloze_item(number: int, head: str, last: str, words: list[str], rng: random.Random) -> Item:
    choices = [last, *rng.sample([word for word in words if word != last], 3)]
    rng.shuffle(choices)
    question = f"Which word ends this line: {head.strip()}"
    return Item(id=f"cloze-{number}", question=question, answer=last, choices=tuple(choices))


def _lines(text: bytes) -> list[str]:
    return [line.strip() for line in text.decode("utf-8", "replace").splitlines() if _LINE.fullmatch(line.strip())]


def _task(name: str, items: list[Item], seed: int) -> Task:
    return Task(
        name=name,
        version=VERSION,
        group="text",
        items=tuple(items[_NUM_EXAMPLES:]),
        examples=tuple(items[:_NUM_EXAMPLES]),
        source=f"Python {platform.python_version()} standard library",
        licence="PSF-2.0",
        settings={"seed": seed},
    )
