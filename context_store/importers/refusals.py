"""Why a file is not imported, and what to do instead."""

from __future__ import annotations

from pathlib import Path

from context_store.importers.formats import head
from context_store.importers.report import Refused

_BY_SUFFIX = {
    (".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".distcp", ".pkl"): (
        "weights or a pickle, no log",
        "give the log that was written beside it; pickles are never opened",
    ),
    (".py", ".ipynb", ".sh", ".toml", ".cfg", ".ini"): ("program or settings, no log", "give the log of the training"),
    (".md", ".rst", ".html", ".pdf"): ("prose, no log", "give the log of the training"),
    (".png", ".jpg", ".jpeg", ".gif", ".svg"): ("a picture, no log", "give the numbers it was drawn from"),
    (".gz", ".zip", ".zst", ".xz", ".bz2", ".tar"): ("compressed", "unpack it first"),
    (".yaml", ".yml"): ("a configuration without a log beside it", "put it beside its log, with the same name"),
}


def explain(path: Path) -> Refused:
    """The most helpful thing that can be said about a file that no format claimed."""
    reason, remedy = _reason(path)
    return Refused(file=str(path), reason=reason, remedy=remedy)


def _reason(path: Path) -> tuple[str, str]:
    content = head(path)
    if not content:
        return "empty, or not readable", "nothing was lost; check its permissions if it should have content"
    for suffixes, words in _BY_SUFFIX.items():
        if path.suffix.lower() in suffixes:
            return words
    if path.suffix.lower() in (".jsonl", ".ndjson", ".csv", ".tsv"):
        return "no column of it is known as the step", "say which: --step NAME"
    if b"\0" in content[:1024]:
        return "a binary file of an unknown format", "export it as CSV or JSON lines with a step column"
    if path.suffix.lower() == ".json":
        return "JSON without training data in a known layout", "export it as JSON lines, one row a step"
    return "no line of it looks like a training step", "export the metrics as JSON lines or CSV with a step column"
