"""`lathe rewriter`: rules taken on texts of one file repair those of another; what would change a text is not used."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

_WORDS = [
    "the",
    "build",
    "of",
    "release",
    "kernel",
    "thread",
    "server",
    "question",
    "patch",
    "module",
    "review",
    "branch",
    "works",
    "today",
    "again",
]


def _texts(folder: Path, num: int) -> Path:
    """Mails and patches, as they should read."""
    rng, lines = np.random.default_rng(0), []
    for number in range(num):
        words = rng.choice(_WORDS, 40).tolist()
        if number % 3:
            body = [f'Hello no {number}, "see" below', "", f">> {' '.join(words[:9])}", " ".join(words[9:18])]
        else:
            body = [f"+{' '.join(words[at : at + 12])} {{ x <- {at} && y }}" for at in (0, 12, 24)]
            body += ["context of a line that is as long as the line of a program can be", "return x"]
        lines.append({"text": "\n".join(body) + "\n", "form": "letter" if number % 3 else "patch"})
    path = folder / "mails.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_rules_are_taken_from_texts_and_run_over_others(
    tmp_path: Path, run_lathe: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows R801-5.2: the process that judges classifiers develops a rewriter, from the command line."""
    rules = tmp_path / "rules.json"
    status, said, _ = run_lathe({}, "rewriter", "improve", _texts(tmp_path, 150), rules, "--json")
    assert status == 0
    found = json.loads(said)
    assert {"whitespace", "entities", "quoted_printable"} <= set(found["rules"])
    assert "worse" in found["not_taken"]["unwrap"] or "not better" in found["not_taken"]["unwrap"]
    assert found["num_refused"] < found["num_texts"] / 10
    lines = [{"id": "a", "text": "5 &lt; 6  \n\n\n\nyes\n"}, {"id": "b", "text": "plain\n"}]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(json.dumps, lines))))
    status, said, told = run_lathe({}, "rewriter", "run", rules)
    assert status == 0
    assert [json.loads(line)["text"] for line in said.splitlines()] == ["5 < 6\n\nyes\n", "plain\n"]
    assert "1 changed, 1 unchanged, 0 refused" in told
    rules.write_text(rules.read_text().replace(found["digest"], "0" * 64))
    status, _, told = run_lathe({}, "rewriter", "run", rules)
    assert (status, "other rules" in told) == (2, True)


def test_texts_that_are_wanted_otherwise_judge_the_rules(
    tmp_path: Path, run_lathe: Callable[..., tuple[int, str, str]]
) -> None:
    path, rules = tmp_path / "pairs.jsonl", tmp_path / "rules.json"
    pairs = [
        {"text": f"a &amp; b {n} {_WORDS[n % 15]} \n", "wanted": f"a & b {n} {_WORDS[n % 15]}\n"} for n in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, pairs)))
    status, said, _ = run_lathe({}, "rewriter", "improve", path, rules, "--json")
    assert (status, json.loads(said)["rules"]) == (0, ["entities", "whitespace"])
    path.write_text("\n".join(map(json.dumps, [*pairs, {"text": "more"}])))
    status, _, told = run_lathe({}, "rewriter", "improve", path, rules)
    assert (status, "no `wanted`" in told) == (2, True)
