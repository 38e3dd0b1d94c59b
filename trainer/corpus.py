"""Text of the running interpreter's standard library as bytes: real code and prose, present everywhere.

Four sources of equal size at most: `library` (single-file modules), `packages` (modules of packages),
`documentation` (the language reference that `help()` shows) and `encodings` (character tables).
"""

from __future__ import annotations

import hashlib
import importlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.errors import EnvironmentFault
from trainer.config import SOURCES

_PACKAGES = (
    "asyncio", "collections", "concurrent", "ctypes", "email", "html", "http", "importlib", "json",
    "logging", "multiprocessing", "re", "unittest", "urllib", "wsgiref", "xml", "xmlrpc",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The bytes of each source, in the order of SOURCES, and the hash of all of them."""

    sources: tuple[NDArray[np.uint8], ...]
    sha256: str


def load_corpus(max_bytes: int) -> Corpus:
    """At most `max_bytes` in all, the same for equal interpreters. Raises EnvironmentFault for an empty source."""
    share = max_bytes // len(SOURCES)
    library = Path(sysconfig.get_paths()["stdlib"])
    folders = [library / package for package in _PACKAGES]
    texts = {
        "library": _text([*library.glob("*.py")], share),
        "packages": _text([path for folder in folders for path in folder.rglob("*.py")], share),
        "documentation": _documentation()[:share],
        "encodings": _text([*(library / "encodings").glob("*.py")], share),
    }
    for name, text in texts.items():
        if not text:
            raise EnvironmentFault(
                f"this Python has no text for the corpus source '{name}' (looked in {library})",
                remedy="install the full standard library, or set data.mixture to sources that exist",
            )
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(len(texts[name]).to_bytes(8, "big") + texts[name])
    return Corpus(
        sources=tuple(np.frombuffer(texts[name], dtype=np.uint8) for name in SOURCES), sha256=digest.hexdigest()
    )


def _text(paths: list[Path], share: int) -> bytes:
    """Files one after another, ended by a zero byte each, until `share` bytes are there; the order is a hash's."""
    chosen = sorted(paths, key=lambda path: hashlib.sha256("/".join(path.parts[-2:]).encode()).digest())
    text = bytearray()
    for path in chosen:
        if len(text) >= share:
            break
        text += path.read_bytes() + b"\0"
    return bytes(text[:share])


def _documentation() -> bytes:
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ModuleNotFoundError:
        return b""
    return b"\0".join(topics[name].encode() for name in sorted(topics))
