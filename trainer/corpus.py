"""Text of the running interpreter's standard library as bytes: real code and prose, present everywhere.

Four sources of equal size at most: `library` (single-file modules), `packages` (modules of packages),
`documentation` (the language reference that `help()` shows) and `encodings` (character tables).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.errors import ConfigError, EnvironmentFault, UserInputError
from trainer.data_config import SOURCES, DataConfig

_PACKAGES = (
    "asyncio", "collections", "concurrent", "ctypes", "email", "html", "http", "importlib", "json",
    "logging", "multiprocessing", "re", "unittest", "urllib", "wsgiref", "xml", "xmlrpc",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The tokens of each source, in the order of `DataConfig.source_names`, and the hash of all of them.

    Tokens are bytes unless a tokenizer is given; `end` ends each document. `answer` belongs to prompts and answers:
    True where a byte is to be learned.
    """

    sources: tuple[NDArray[np.uint8] | NDArray[np.int32], ...]
    sha256: str
    end: int = 0
    answer: NDArray[np.bool_] | None = None
    cut: tuple[str, ...] = ()  # sources of a folder that have more text than `data.corpus_bytes` lets in


def corpus_of(data: DataConfig, vocab_size: int) -> Corpus:
    """What the config names: the standard library, a folder, or prompts and answers; in bytes or a tokenizer's tokens.

    `vocab_size` is the model's.
    """
    if data.documents != "answers":
        text = _texts_of(data)
        if not data.tokenizer:
            return text
        from trainer.tokenizer import tokenised

        return tokenised(text, Path(data.tokenizer), vocab_size)
    if not data.examples:
        raise ConfigError(
            "data.documents is answers, but data.examples names no file",
            remedy='set data.examples to a JSONL file of {"prompt": "...", "answer": "..."}',
        )
    return load_examples(Path(data.examples))


def _texts_of(data: DataConfig) -> Corpus:
    if not data.folder:
        return load_corpus(data.corpus_bytes)
    from trainer.folder_corpus import load_folder

    return load_folder(Path(data.folder), data.mixture.sources(), data.corpus_bytes)


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
                remedy="install the full standard library of this Python, or use one that has it",
            )
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(len(texts[name]).to_bytes(8, "big") + texts[name])
    return Corpus(
        sources=tuple(np.frombuffer(texts[name], dtype=np.uint8) for name in SOURCES), sha256=digest.hexdigest()
    )


def load_examples(path: Path) -> Corpus:
    """One source of prompts, each followed by its answer and a zero byte. Raises UserInputError naming the line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserInputError(
            f"data.examples: {path} cannot be read ({error})", remedy="name a JSONL file of prompts and answers"
        ) from error
    examples = [_example(line, f"line {number} of {path}") for number, line in enumerate(lines, start=1)]
    if not examples:
        raise UserInputError(
            f"data.examples: {path} is empty", remedy='add lines like {"prompt": "...", "answer": "..."}'
        )
    text = b"".join(prompt + answer + b"\0" for prompt, answer in examples)
    answer = np.concatenate([np.arange(len(p) + len(a) + 1) >= len(p) for p, a in examples])
    digest = hashlib.sha256(text + np.packbits(answer).tobytes()).hexdigest()
    return Corpus(sources=(np.frombuffer(text, dtype=np.uint8),), sha256=digest, answer=answer)


def _example(line: str, where: str) -> tuple[bytes, bytes]:
    try:
        fields = json.loads(line)
        prompt, answer = fields["prompt"].encode(), fields["answer"].encode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserInputError(
            f'{where} is not {{"prompt": "...", "answer": "..."}} ({error!r})', remedy="correct or remove the line"
        ) from error
    if not prompt or not answer or b"\0" in prompt + answer:
        raise UserInputError(f"{where}: prompt or answer is empty or holds a zero byte", remedy="correct or remove it")
    return prompt, answer


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
