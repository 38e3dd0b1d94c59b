"""The written texts that are to be found, brought in through the store's own doors, among generated ones."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from context_store import Store
from context_store.records import Anomaly, NegativeResult, NewRun, Project, TimelineEvent
from contracts.enums import CauseKind, RunRole, Scope, TimelineKind, Verdict
from contracts.evidence import EvidenceRef

FOLDER = Path(__file__).parents[1] / "knowledge_questions"
PROJECT, RUN = "written", "run-written"
_SOME_RUN = EvidenceRef(kind="run", id=RUN)
Text = Mapping[str, Any]


def read_corpus() -> list[Text]:
    return [json.loads(line) for line in (FOLDER / "corpus.jsonl").read_text().splitlines()]


def load(store: Store, folder: Path, texts: list[Text]) -> dict[str, str]:
    """Store them; the evidence reference of each, by its id in the corpus."""
    store.projects.put(Project(id=PROJECT, path=str(folder)))
    new = NewRun(id=RUN, project_id=PROJECT, name=RUN, role=RunRole.TRAINING, folder=str(folder / RUN))
    store.runs.create(new)
    hunks = [text for text in texts if text["kind"] == "hunk"]
    doors = {"change": _change, "note": _note, "anomaly": _anomaly, "investigation": _case, "negative": _negative}
    found = {text["id"]: doors[text["kind"]](store, text) for text in texts if text["kind"] != "hunk"}
    return found | _commit(store, folder / "repository", hunks)


def _event(store: Store, text: Text, kind: TimelineKind, detail: Mapping[str, Any]) -> str:
    event = TimelineEvent(
        run_id=RUN, segment=0, step=text.get("step", 0), kind=kind, title=text["title"], detail=detail
    )
    return f"event:{store.timeline.add(event).id}"


def _change(store: Store, text: Text) -> str:
    return _event(store, text, TimelineKind(text["kind2"]), {"key": text["key"]} if "key" in text else {})


def _note(store: Store, text: Text) -> str:
    return _event(store, text, TimelineKind.NOTE, {"text": text["body"], "outcome": text.get("outcome", "")})


def _anomaly(store: Store, text: Text) -> str:
    anomaly = Anomaly(
        run_id=RUN, kind=text["finding"], series=tuple(text["series"]), onset=(text["step"], text["step"] + 10),
        severity=0.5, statement=text["title"], evidence=(_SOME_RUN,),
    )  # fmt: skip
    return f"anomaly:{store.knowledge.put_anomaly(anomaly).id}"


def _case(store: Store, text: Text) -> str:
    store.knowledge.open_investigation(text["id"], RUN, [], text["title"], at=1.0)
    store.knowledge.set_investigation(
        text["id"], verdict=Verdict(text["verdict"]), scope=Scope.OBSERVED, statement=text["body"],
        cause_kind=CauseKind(text["cause"]),
    )  # fmt: skip
    return f"investigation:{text['id']}"


def _negative(store: Store, text: Text) -> str:
    negative = NegativeResult(
        claim=text["title"], intervention=text["title"], context={}, expected="", observed=text["observed"],
        reason_class=text["reason_class"], reason=text["reason"], evidence=(_SOME_RUN,),
        reopen_if=text.get("reopen_if", ""), investigation_id=None, actor="benchmark", project_id=PROJECT,
    )  # fmt: skip
    return f"negative:{store.negatives.add(negative).id}"


def _commit(store: Store, repository: Path, hunks: list[Text]) -> dict[str, str]:
    """A real repository, one commit a hunk."""
    repository.mkdir(parents=True)

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments]
        return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    for text in hunks:
        file = repository / text["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        removed = [line[1:] for line in text["body"].splitlines() if line.startswith("-")]
        file.write_text("".join(f"{line}\n" for line in ["def changed():", *removed]))
    git("add", "-A")
    git("commit", "-q", "-m", "start")
    commits = {}
    for text in hunks:
        added = [line[1:] for line in text["body"].splitlines() if line.startswith("+")]
        (repository / text["path"]).write_text("".join(f"{line}\n" for line in ["def changed():", *added]))
        git("commit", "-q", "-a", "-m", text["title"])
        commits[text["id"]] = git("rev-parse", "HEAD")
    store.code.ingest(PROJECT, repository)
    return {key: f"hunk:{commit[:12]}/" for key, commit in commits.items()}


def distractors(number: int, seed: int = 0) -> list[tuple[TimelineKind, str, str]]:
    """(kind, title, body) of generated texts of the same field: changes, findings, notes, and real Python functions."""
    rng = random.Random(seed)
    functions = list(_functions())
    rng.shuffle(functions)
    made: dict[str, tuple[TimelineKind, str, str]] = {}
    while len(made) < number // 2:
        kind, title = _generated(rng)
        made[title] = (kind, title, "")
    code = [(TimelineKind.NOTE, f"{module}: {name}", body) for module, name, body in functions[: number - len(made)]]
    return [*made.values(), *code]


def _generated(rng: random.Random) -> tuple[TimelineKind, str]:
    layer, step = rng.randrange(48), rng.randrange(300_000)
    part = rng.choice(["attn.q_proj", "attn.o_proj", "mlp.up", "mlp.down", "norm", "embedding", "conv", "gate"])
    quantity = rng.choice(["weight norm", "update norm", "activation scale", "logit std", "memory", "queue length"])
    moved = rng.choice(["rises slowly", "drops once", "oscillates", "is noisy", "is flat", "has a kink"])
    field = rng.choice(["warmup_steps", "dropout", "log_every", "save_every", "num_workers", "prefetch", "bucket_mb"])
    section = rng.choice(["optim", "data", "train", "io", "eval", "parallel"])
    names, other = rng.randrange(99), rng.randrange(1053)
    choices = [
        (TimelineKind.CONFIG, f"{section}.{field} {rng.randrange(1, 99)} -> {rng.randrange(100, 999)}"),
        (TimelineKind.NOTE, f"{quantity} of layers.{layer}.{part} {moved} from step {step} on"),
        (
            TimelineKind.NOTE,
            f"evaluation {other} at step {step}: {rng.choice(['arc', 'gsm', 'mmlu'])} done",
        ),
        (
            TimelineKind.ENVIRONMENT,
            f"environment package-{names} 1.{layer} -> 2.{names}",
        ),
        (
            TimelineKind.DATA,
            f"data.shard_{names} added: subset {other} of stage {layer}",
        ),
    ]
    return rng.choice(choices)


def _functions() -> Iterator[tuple[str, str, str]]:
    """(module, name, source) of the standard library's functions with a docstring."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        source = path.read_text(errors="replace")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                yield path.stem, node.name, (ast.get_source_segment(source, node) or "")[:400]
