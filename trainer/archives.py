"""Files of a corpus as they lie in a folder: packed ones, WARC files, and datasets that Hugging Face's `datasets` saved
(extra `corpora`). What a training reads here is what `lathe data decontaminate` searches.
"""

from __future__ import annotations

import gzip
import html
import importlib
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from contracts.errors import EnvironmentFault, UserInputError

_PACKED = (".gz", ".zst")
_PIECE_BYTES = 1 << 16
_MAX_WINDOW_BYTES = 1 << 31  # what `zstd --long=31` needs, with which public corpora are packed
_SAVED = ("dataset_info.json", "dataset_dict.json")
_TEXTS = ("text/", "application/json", "application/xhtml+xml")
_SILENT = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->")
_TAG = re.compile(r"(?s)<[^>]*>")
_SPACE = re.compile(r"[ \t]*\n\s*")


def paths(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Its files and saved datasets, in the order of their paths. Raises UserInputError for a link back to `above`."""
    above = (*above, folder.resolve())
    if above[-1] in above[:-1]:
        raise UserInputError(f"{folder} is a link to a folder that holds it", remedy="remove the link")
    if _is_dataset(folder):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from paths(path, above)
        else:
            yield path


def kind_of(path: Path) -> str:
    """`dataset` for a folder that `Dataset.save_to_disk` wrote, else the suffix below the packing: `.jsonl`."""
    if _is_dataset(path):
        return "dataset"
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _PACKED), "")


def _is_dataset(folder: Path) -> bool:
    """Whether `Dataset.save_to_disk` wrote the folder."""
    return any((folder / name).is_file() for name in _SAVED)


def opened(path: Path) -> BinaryIO:
    """What is in the file, unpacked. Raises UserInputError where it cannot be read, or is damaged or ends early."""
    packed = path.suffix.lower()
    if packed not in _PACKED:
        try:
            return path.open("rb")
        except OSError as error:
            raise _damaged(path, error) from error
    pieces = _of_gzip(path) if packed == ".gz" else _of_zstd(path)
    return io.BufferedReader(_Unpacked(path, pieces), _PIECE_BYTES)


def of_warc(path: Path) -> Iterator[bytes]:
    """The text of each response, resource and conversion; of HTML what a reader sees. Other media are left out.

    Raises EnvironmentFault without warcio and UserInputError for a damaged file.
    """
    warcio = _imported("warcio.archiveiterator")
    damaged = _imported("warcio.exceptions").ArchiveLoadFailed
    with opened(path) as file:
        try:
            for record in warcio.ArchiveIterator(file):
                if record.rec_type in ("response", "resource", "conversion"):
                    yield from _text(record)
        except damaged as error:
            raise _damaged(path, error) from error


def of_dataset(folder: Path, fields: Sequence[str] = ()) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The records of a saved dataset, split after split: the split ("" where there are none), the row from 1 on, and
    those of `fields` that it has; without fields all but media.

    Raises EnvironmentFault without datasets and UserInputError for a damaged folder.
    """
    try:
        loaded = _imported("datasets").load_from_disk(str(folder))
        splits = loaded.items() if hasattr(loaded, "items") else [("", loaded)]
        for split, dataset in splits:
            columns = dataset.select_columns(_columns(dataset, fields))
            yield from ((split, row, record) for row, record in enumerate(columns, start=1))
    except (OSError, ValueError, KeyError, TypeError) as error:  # what `datasets` lets through of a damaged folder
        raise _damaged(folder, error) from error


def _columns(dataset: Any, fields: Sequence[str]) -> list[str]:
    if fields:
        return [name for name in fields if name in dataset.column_names]
    return [name for name, kind in dataset.features.items() if not hasattr(kind, "decode_example")]


class _Unpacked(io.RawIOBase):
    """A packed file as one of what was packed."""

    def __init__(self, path: Path, pieces: Iterator[bytes]) -> None:
        self._path, self._pieces, self._rest = path, pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            while not self._rest:
                self._rest = next(self._pieces)
        except StopIteration:
            return 0
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise _damaged(self._path, error) from error
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)], self._rest = taken, self._rest[len(taken) :]
        return len(taken)


def _of_gzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _of_zstd(path: Path) -> Iterator[bytes]:
    """All frames. Raises EOFError where the last one is cut off."""
    frame = None
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            while piece:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
                yield frame.decompress(piece)
                piece, frame = frame.unused_data, None if frame.eof else frame
    if frame is not None:
        raise EOFError("the file ends within a zstd frame")


def _damaged(path: Path, error: Exception) -> UserInputError:
    return UserInputError(f"{path}: {error}", remedy="fetch it again, or move it out of the folder")


def _text(record: Any) -> Iterator[bytes]:
    headers = record.http_headers or record.rec_headers
    media = (headers.get_header("Content-Type") or "").lower()
    if media.startswith(_TEXTS):
        body = record.content_stream().read().decode("utf-8", "replace")
        yield (_seen(body) if "html" in media else body).encode()


def _seen(page: str) -> str:
    """Text without tags, a line a block."""
    return _SPACE.sub("\n", html.unescape(_TAG.sub("\n", _SILENT.sub("", page)))).strip()


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            f"the corpus needs {name.partition('.')[0]}, which is not installed",
            remedy="pip install '.[corpora]' in Lathe's folder",
        ) from error
