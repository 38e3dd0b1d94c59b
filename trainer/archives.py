"""Documents of WARC files and of datasets that Hugging Face's `datasets` saved (extra `corpora`)."""

from __future__ import annotations

import html
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contracts.errors import EnvironmentFault, UserInputError

WARC = (".warc", ".warc.gz")
_SAVED = ("dataset_info.json", "dataset_dict.json")
_TEXTS = ("text/", "application/json", "application/xhtml+xml")
_SILENT = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->")
_TAG = re.compile(r"(?s)<[^>]*>")
_SPACE = re.compile(r"[ \t]*\n\s*")


def is_dataset(folder: Path) -> bool:
    """Whether `Dataset.save_to_disk` wrote the folder."""
    return any((folder / name).is_file() for name in _SAVED)


def of_warc(path: Path) -> Iterator[bytes]:
    """The text of each response, resource and conversion; of HTML what a reader sees. Other media are left out.

    Raises EnvironmentFault without warcio and UserInputError for a damaged file.
    """
    warcio = _imported("warcio.archiveiterator")
    damaged = _imported("warcio.exceptions").ArchiveLoadFailed
    with path.open("rb") as file:
        try:
            for record in warcio.ArchiveIterator(file):
                if record.rec_type in ("response", "resource", "conversion"):
                    yield from _text(record)
        except damaged as error:
            raise UserInputError(f"data.folder: {path}: {error}", remedy="fetch the file again") from error


def of_dataset(folder: Path, fields: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], str]]:
    """The records of a saved dataset, split after split, with only those of `fields` they have; and where each is.

    Raises EnvironmentFault without datasets.
    """
    loaded = _imported("datasets").load_from_disk(str(folder))
    splits = loaded.items() if hasattr(loaded, "items") else [("", loaded)]
    for split, dataset in splits:
        columns = dataset.select_columns([name for name in fields if name in dataset.column_names])
        for row, record in enumerate(columns, start=1):
            yield record, f"{folder}, {f'{split}, ' if split else ''}row {row}"


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
