"""Lines of a text log: UTF-8 or UTF-16, without terminal colours; each state of a progress bar is a line of its own."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from context_store.importers.items import Problem

_BLOCK_BYTES = 1 << 20
_MAX_CHARACTERS = 1 << 20
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Line(NamedTuple):
    """`number` counts from 1 as editors do; states of a progress bar share one."""

    number: int
    text: str


def encoding_of(head: bytes) -> str:
    """By byte order mark, or by where the NULs of plain English stand."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    sample = head[:2048]
    if len(sample) >= 8 and sample.count(0) > len(sample) // 4:
        return "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
    return "utf-8"


def read_lines(path: Path, *, growing: bool = False) -> Iterator[Line | Problem]:
    """`growing`: a last line without an end is still being written and waits for its rest."""
    number, rest, is_left_out = 0, "", False
    for text in _texts(path):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            number += 1
            if not is_left_out:
                yield from _states(number, line)
            is_left_out = False
        if len(rest) > _MAX_CHARACTERS and "\r" in rest and not is_left_out:
            states, _, rest = rest.rpartition("\r")
            yield from _states(number + 1, states)
        elif len(rest) > _MAX_CHARACTERS and not is_left_out:
            what = "longer than a million characters; left out"
            yield Problem(file=str(path), position=f"line {number + 1}", what=what)
            is_left_out = True
        rest = "" if is_left_out else rest
    if rest and not growing:
        yield from _states(number + 1, rest)


def sample(path: Path, num_bytes: int = 1 << 20) -> list[str]:
    """The first lines, for recognising a format."""
    try:
        with path.open("rb") as file:
            raw = file.read(num_bytes)
    except OSError:
        return []
    text = raw.decode(encoding_of(raw), errors="replace").lstrip("\ufeff")
    return [_ANSI.sub("", line) for line in re.split(r"[\r\n]+", text)]


def _texts(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        block = file.read(_BLOCK_BYTES)
        decoder = codecs.getincrementaldecoder(encoding_of(block))(errors="replace")
        first = True
        while block:
            text = decoder.decode(block)
            yield text.lstrip("\ufeff") if first else text
            first = False
            block = file.read(_BLOCK_BYTES)
        yield decoder.decode(b"", final=True)


def _states(number: int, line: str) -> Iterator[Line]:
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\r" not in line:
        yield Line(number, line)
        return
    for state in line.split("\r"):
        if state:
            yield Line(number, state)
