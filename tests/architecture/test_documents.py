"""READMEs are true: the commands they show exist, folders explain themselves, and the root page stays short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("contracts", "context_store", "trainer", "agents", "loops", "control_plane", "ui", "benchmarks", "tests")
COMMANDS = {
    "backend", "backup", "chat", "classifier", "code", "completeness", "config", "data", "delete", "demo", "detect",
    "diagnose", "diff", "doctor", "down", "environment", "evals", "evolve", "experiment", "expire", "export", "ingest",
    "mcp", "mlflow", "negatives", "owner", "policy", "potential", "proposals", "providers", "recipe", "redactions",
    "report", "restore", "rewriter", "runs", "schedule", "search", "shares", "timeline", "tokens", "train", "up", "why",
}  # fmt: skip


def lathe(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "control_plane.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_commands_are_frozen() -> None:
    from typer.main import get_command

    from control_plane.cli.main import app

    assert set(get_command(app).commands) == COMMANDS  # type: ignore[attr-defined]


def test_readme_commands_exist() -> None:
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)", text)) <= targets
    shown = set(re.findall(r"^\s*(?:\.venv/bin/)?lathe ([a-z]+)", text, re.MULTILINE))
    shown |= set(re.findall(r"`lathe ([a-z]+)", text))
    assert shown
    assert shown <= COMMANDS


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_explains_itself_briefly(folder: str) -> None:
    lines = (ROOT / folder / "README.md").read_text().splitlines()
    assert 3 <= len(lines) < 60


def test_the_root_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_help_names_every_command() -> None:
    done = lathe("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout
