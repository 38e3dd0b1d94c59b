"""`compare` tells what is equal from what nobody wrote down."""

from __future__ import annotations

from pathlib import Path

from context_store.importers import Options, discover, store
from control_plane.comparison import compare
from control_plane.wiring import Lathe


def _imported(lathe: Lathe, path: Path) -> str:
    """The id of the run in one console log, which says nothing of code and configuration."""
    path.write_text("".join(f"step:{s}/100 train_loss:{9 - s / 50:.4f} train_time:{s}ms\n" for s in range(100)))
    before = {run.id for run in lathe.store.runs.list()}
    found, _ = discover(str(path))
    store(found, lathe.settings.database_url, Options(actor="t"), clock=lambda: 1.0, tell=lambda *_: None)
    return next(run.id for run in lathe.store.runs.list() if run.id not in before)


def test_what_was_not_recorded_is_not_called_equal(lathe: Lathe, tmp_path: Path) -> None:
    first, second = (_imported(lathe, tmp_path / name) for name in ("one.log", "two.log"))
    found = compare(lathe.store, first, second)
    assert set(found["not_recorded"]) >= {"effective", "mixture", "code"}
    assert found["code"]["commits"] == []
