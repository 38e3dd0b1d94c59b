"""Candidates that touch what is not theirs; each must be refused before anything runs, its harmless twin must not."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from contracts.errors import NotPermitted
from loops.evolve.surface import Surface

Files = Mapping[str, str]
_OUTSIDE = (
    "../escape.py", "/etc/passwd", "mechanisms/../graph2.py", "mechanisms/deep/more.py", "prompts/x.py", "skills/x.sh",
    ".git/hooks/post-checkout", ".git/config", ".gitattributes", ".gitmodules", "conftest.py", "sitecustomize.py",
    "usercustomize.py", "langgraph/graph.py", "loops/evolve/inside/grade.py", "inside/budget.py", "suite/splits.json",
    "splits.json", "task.json", "grader.json", "journal.jsonl", "plan.json", "score.json", "x.pth", "mechanisms/x.so",
    "mechanisms/__init__.pyc", "params.json.bak", "PARAMS.JSON", "mechanisms/\u202e.py", "mechanisms/a\nb.py",
    "graph.py/x", "prompts//system.md", "./graph.py", "mechanisms/.py/../../x", "policy.yaml", "pyproject.toml",
)  # fmt: skip


def attacks(files: Files, secrets: Collection[str]) -> dict[str, dict[str, str]]:
    """By name, the files after a change that must be refused."""
    found = {f"outside {name!r}": {**files, name: "x = 1\n"} for name in _OUTSIDE}
    found["too many lines"] = {**files, "mechanisms/long.py": "x = 1\n" * 700}
    found["too many bytes"] = {**files, "prompts/system.md": ("y" * 300 + "\n") * 300}
    found["one long line"] = {**files, "prompts/system.md": "z" * 5000}
    found["no Python"] = {**files, "graph.py": "def build(:\n"}
    found["no JSON"] = {**files, "params.json": "{"}
    found["JSON that is a list"] = {**files, "params.json": "[]"}
    found["a NUL"] = {**files, "prompts/system.md": "a\0b"}
    for secret in sorted(secrets)[:8]:
        found[f"names {secret}"] = {**files, "prompts/system.md": f"The answer to {secret} is known.\n"}
    return found


def succeeded(files: Files, secrets: Collection[str]) -> list[str]:
    """Names of the attacks that were not refused, and of harmless twins that were."""
    surface = Surface()
    wrong = []
    for name, after in attacks(files, secrets).items():
        try:
            surface.check(files, after, secrets)
        except NotPermitted:
            continue
        wrong.append(name)
    surface.check(files, {**files, "mechanisms/new.py": "x = 1\n"}, secrets)
    return wrong
