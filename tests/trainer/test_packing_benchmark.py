"""`python -m benchmarks.packing` on small files of lengths: its keys, and that it notices a loss."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.packing import missing_labels
from trainer.packing import Packs, pack_documents

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.packing", "--json", "--widest", "4", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def test_lengths_from_a_file(tmp_path: Path) -> None:
    """Shows R801-7.10: the ratio falls with the window, nothing is lost, and the speed is there."""
    lengths = np.clip(np.random.default_rng(0).lognormal(3, 1.5, 20_000), 2, 2000).astype(int)
    (tmp_path / "lengths.txt").write_text("\n".join(map(str, lengths)))
    figures = bench("--lengths", str(tmp_path / "lengths.txt"), "--capacity", "1000")
    assert figures["lost"] == 0
    assert 1 <= figures["imbalance_after"] < figures["imbalance_before"]
    assert figures["documents_per_minute"] > 0
    (cell,) = figures["cells"]
    assert (cell["name"], cell["documents"]) == ("lengths.txt", 20_000)
    curve = [cell["windows"][str(window)]["imbalance"] for window in (1, 2, 4)]
    assert curve == sorted(curve, reverse=True)


def test_a_grid_from_a_file(tmp_path: Path) -> None:
    cells = [
        {"name": name, "documents": 6000, "capacity": 800, "sources": {"a": [median, 1.0], "b": [300, 0.5]}}
        for name, median in (("short", 20), ("middle", 100))
    ]
    (tmp_path / "grid.json").write_text(json.dumps(cells))
    figures = bench("--grid", str(tmp_path / "grid.json"))
    assert [cell["name"] for cell in figures["cells"]] == ["short", "middle"]
    assert figures["worst_cell"] in ("short", "middle")
    assert figures["imbalance_after"] == max(cell["imbalance_after"] for cell in figures["cells"])


def test_it_notices_what_is_lost_or_doubled() -> None:
    lengths = np.array([5, 30, 7, 12])
    packs = pack_documents(lengths.tolist(), 10)
    assert missing_labels(lengths, packs) == 0

    def changed(**fields: object) -> Packs:
        known = {name: getattr(packs, name).copy() for name in ("document_N", "start_N", "length_N", "first_piece")}
        return Packs(**(known | fields))  # type: ignore[arg-type]

    assert missing_labels(lengths, changed(length_N=packs.length_N - (packs.length_N == 10))) > 0
    assert missing_labels(lengths, changed(document_N=np.where(packs.document_N == 2, 3, packs.document_N))) > 0
    assert missing_labels(lengths, changed(start_N=np.zeros_like(packs.start_N))) > 0
