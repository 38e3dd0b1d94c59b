"""How many re-runs a case needs, and how many a related one after it: real trainings, real commits, the real loop.

The project is `knowledge_project`, a training of a second. Four commits come into force at a resume; one shuffles the
labels, three only look suspicious. The related fault is the same history in another run (another seed).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from context_store import Store, migrate, open_store
from contracts.enums import Verdict
from contracts.errors import LatheError
from control_plane.backends.command_registry import Registry
from control_plane.cli.investigate import work_on
from control_plane.logging import configure_logging
from control_plane.projects import connect_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.debug import detect, open_case

SOURCE = Path(__file__).parents[1] / "knowledge_project"
GOOD_STEPS, STEPS = 40, 80
_EDITS = (
    ("net.py", "clip_norm = 1e6", "clip_norm = 1e9", "net: clip later"),
    ("rates.py", "warmup_lr = 5", "warmup_lr = 2", "rates: a shorter warm-up"),
    ("samples.py", "* rng.normal(size=points.shape), labels", "* rng.normal(size=points.shape), np.roll(labels, 1)",
     "samples: another layout"),
    ("rates.py", "momentum_eps = 1e-9", "momentum_eps = 1e-6", "rates: a larger eps"),
)  # fmt: skip
_SPEC = f"""
name = "ring"
command = ["{sys.executable}", "train.py", "--seed", "{{seed}}", "--steps", "{{steps}}", "--out", "{{output_dir}}",
           "{{overrides}}", "{{resume}}"]
steps = {STEPS}
resume = ["--resume", "{{checkpoint}}"]

[config]
base = "config.json"

[log]
file = "metrics.jsonl"
format = "jsonl"

[checkpoints]
glob = "ckpt-*.npz"
step = 'ckpt-(\\d+)'
"""


def measure_probes(store: Store, folder: Path) -> dict[str, Any]:
    """`probes_first`, then with its memory `probes_second`, and `probes_second_empty` on a database of its own."""
    configure_logging("warning", as_json=False)
    empty_url = _another_database(store)
    good, faulty, culprit = _lay_out(folder / "project")
    counts = []
    for name, url, seed in (("full", store.url, 1), ("full", store.url, 2), ("empty", empty_url, 2)):
        with Lathe.open(_settings(folder / name, url)) as lathe:  # each by itself, as two commands would
            counts.append(_investigate(lathe, folder, good, faulty, culprit, seed))
    first, second, second_empty = counts
    return {"probes_first": first, "probes_second": second, "probes_second_empty": second_empty}


def _investigate(lathe: Lathe, folder: Path, good: str, faulty: str, culprit: str, seed: int) -> int:
    """Train, break, diagnose. The number of re-runs; raises LatheError unless the culprit is proven."""
    registry = Registry(lathe.settings.backends_folder)
    spec = folder / "ring.toml"
    spec.write_text(_SPEC)
    registered = registry.read(spec)
    registry.make_present(registered)
    project = connect_project(lathe.store, folder / "project", registered)
    run_id = f"seed-{seed}"
    wish = TrainingRequest(run_id=run_id, project=project, commit=good, seed=seed, max_step=GOOD_STEPS)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    follow(lathe.backend, lathe.shipper, lathe.trainings.go_on(run_id, commit=faulty, max_step=STEPS))
    case_id = open_case(lathe.store, run_id, detect(lathe.store, run_id), time.time())
    if case_id is None:
        raise LatheError(f"nothing was found in {run_id}", remedy="the benchmark's project has to show the fault")
    case = work_on(lathe, case_id)
    proven = lathe.store.knowledge.verdicts(case_id)[0].suspect_keys
    if case.verdict is not Verdict.PROVEN or proven != (f"commit:{culprit}",):
        raise LatheError(f"{run_id}: {case.verdict}, {proven}: {case.statement}", remedy="read the case's report")
    return len(lathe.store.knowledge.diagnostics(case_id))


def _lay_out(folder: Path) -> tuple[str, str, str]:
    """(good, faulty, culprit): commits of a new repository."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    def commit(subject: str) -> str:
        git("add", "-A")
        git("commit", "-q", "-m", subject)
        return git("rev-parse", "HEAD")

    git("init", "-q", "-b", "main")
    commits = [commit("start")]
    for name, old, new, subject in _EDITS:
        source = (folder / name).read_text()
        (folder / name).write_text(source.replace(old, new))
        commits.append(commit(subject))
    return commits[0], commits[-1], commits[3]


def _settings(home: Path, url: str) -> Settings:
    return Settings(home=home, database_url=url, backend="local", num_cpus=2, fresh_seeds=0, embedder="hashed")


def _another_database(store: Store) -> str:
    """A second, empty database on the same server."""
    import psycopg

    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty_memory")
    url = store.url.replace("/lathe?", "/empty_memory?")
    migrate(url)
    open_store(url).close()
    return url
