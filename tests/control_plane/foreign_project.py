"""The foreign training as a project under git, and the spec that connects it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from small_project import commit, git

SOURCE = Path(__file__).with_name("foreign")
SPEC = f"""
name = "tiny"
command = ["{sys.executable}", "train.py", "--seed", "{{seed}}", "--steps", "{{steps}}", "--out", "{{output_dir}}",
           "{{overrides}}", "{{resume}}"]
steps = 100
resume = ["--resume", "{{checkpoint}}"]

[config]
base = "config.json"

[log]
file = "metrics.jsonl"
format = "jsonl"
rename = {{ 'train\\.(.*)' = '\\1' }}
ignore = ["clock"]

[checkpoints]
glob = "ckpt-*.npz"
step = 'ckpt-(\\d+)'

[probe]
steps = 20
"""


def make_foreign_project(folder: Path) -> str:
    """Lay it out in a new folder; the first commit."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "-q", "-b", "main")
    return commit(folder, "start")


def write_spec(path: Path, *changes: tuple[str, str]) -> Path:
    """The spec, with the first text of each pair replaced by the second."""
    text = SPEC
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path
