"""lathe_log against a real API process that comes and goes, in real training processes that are killed."""

from __future__ import annotations

import ast
import math
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from elsewhere import CLIENTS, SEND_SPOOL, ApiProcess, Trainings, points, until

from context_store import Store
from contracts.enums import RunState, TimelineKind

PYTHON_3_9 = next(map(str, Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")), shutil.which("python3.9"))


def test_it_is_one_file_of_the_standard_library_for_python_3_9() -> None:
    for folder in CLIENTS:
        (source,) = folder.glob("*.py")
        tree = ast.parse(source.read_text(), feature_version=(3, 9))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        allowed = {"numpy", "pandas"} if folder.name == "lathe_read" else set()
        assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names | allowed
        assert (folder / "pyproject.toml").exists()


def test_a_whole_training_arrives_exactly(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    """Shows R801-2.2 and R801-2.3: values, configuration, changes and the end, from a training elsewhere."""
    api.start()
    trainings.run(
        """
import math
with lathe_log.init("my project", run="r", name="a name", config={"optim": {"lr": 1e-3}, "seed": 7}) as run:
    run.config({"data": {"mixture": [1, 2]}})
    run.log({"loss": math.nan, "grad_norm/layers.3": math.inf, "inner": {"deep": -math.inf}, "n": 3, "ok": True})
    run.log({"loss": 0.1 + 0.2, "text": "left out", "none": None, "list": [1]}, step=10)
    run.log({"loss": 5e-324}, step=4)
    run.event("new mixture", kind="data", detail={"web": 0.4, "when": {"a": None}})
    run.config({"optim.lr": 2e-3}, step=9)
"""
    )
    found = store.series.matrix("r", ["loss", "grad_norm/layers.3", "inner.deep", "n", "ok"])
    assert found.steps.tolist() == [1, 4, 10]
    assert math.isnan(found.values[0, 0])
    assert found.values[0, 1:].tolist() == [5e-324, 0.1 + 0.2]
    assert found.values[1:, 0].tolist() == [math.inf, -math.inf, 3.0, 1.0]
    assert set(store.series.names("r")) == {"loss", "grad_norm/layers.3", "inner.deep", "n", "ok"}
    run = store.runs.get("r")
    assert (run.state, run.name, run.project_id) == (RunState.COMPLETED, "a name", "my-project")
    (segment,) = store.runs.segments("r")
    assert (segment.seed, segment.start_step, segment.end_reason) == (7, 0, "completed")
    assert store.runs.declared("r", 0) == {"optim.lr": 1e-3, "seed": 7, "data.mixture": "[1, 2]"}
    assert store.runs.effective("r", 0) == {"optim.lr": 2e-3}
    (event,) = store.timeline.list("r", kinds=[TimelineKind.DATA])
    assert (event.title, event.step, event.detail) == ("new mixture", 4, {"web": 0.4, "when.a": None})
    assert list(trainings.spool.iterdir()) == [], "what arrived needs no spool"


TRAIN_UNTIL_KILLED = """
import time
run = lathe_log.init("p", run="r")
for step in range(1, 100_000):
    run.log({"loss": step / 7, "other": float(step)}, step=step)
    if step % 50 == 0:
        print(step, "flushed" if run.flush(5) else "away", flush=True)
"""


def test_a_killed_training_loses_nothing_it_logged(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    """Whatever `flush` acknowledged is in the database; the next process sends what the killed one had logged."""
    api.start()
    killed = trainings.start(TRAIN_UNTIL_KILLED)
    assert killed.stdout is not None
    seen = [killed.stdout.readline() for _ in range(5)]
    killed.kill()
    seen += killed.stdout.readlines()
    assert {line.split()[1] for line in seen} == {"flushed"}
    acknowledged = int(seen[-1].split()[0])
    assert [step for _, step, _ in points(store, "r")][:acknowledged] == list(range(1, acknowledged + 1))
    trainings.run(
        "run = lathe_log.init('p', run='r2'); run.log({'loss': 1.0}); run.flush(); import time; time.sleep(1)"
    )
    until(lambda: not list(trainings.spool.iterdir()))
    stored = points(store, "r")
    assert len(stored) >= acknowledged
    assert stored == [(0, step, step / 7) for step in range(1, len(stored) + 1)], "none lost between, none twice"
    assert store.runs.get("r").state == RunState.STOPPED
    assert store.runs.get("r").message == "its process vanished"


def test_an_api_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    api: ApiProcess, trainings: Trainings, store: Store
) -> None:
    training = trainings.start(
        """
run = lathe_log.init("p", run="r", config={"a": 1})
for step in range(1, 2501):
    run.log({"loss": step / 7, "x": {f"y{i}": step * i / 3 for i in range(20)}}, step=step)
    if step % 200 == 0:
        print(step, run.flush(0.2), flush=True)
while not run.flush(5):
    pass
print("all", flush=True)
run.finish()
"""
    )
    assert training.stdout is not None
    assert training.stdout.readline() == "200 False\n", "it goes on while Lathe is away"
    for _ in range(2):
        api.start()
        training.stdout.readline()
        api.kill()
    api.start()
    out, err = training.communicate(timeout=60)
    assert training.returncode == 0, err
    assert "all" in out
    assert points(store, "r") == [(0, step, step / 7) for step in range(1, 2501)]
    assert points(store, "r", "x.y19") == [(0, step, step * 19 / 3) for step in range(1, 2501)]
    assert store.runs.get("r").state == RunState.COMPLETED


def test_four_ranks_are_one_run_one_segment(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    api.start()
    code = """
run = lathe_log.init("p", run="r", rank={rank}, world_size=4, config={{"rank": {rank}}})
for step in range(1, 201):
    run.log({{"tps": step + {rank} / 10, "all@rank={rank}": 1.0}}, step=step)
import os, signal
if {rank} == 2: os.kill(os.getpid(), signal.SIGKILL)
run.finish()
"""
    processes = [trainings.start(code.format(rank=rank)) for rank in range(4)]
    for process in processes:
        process.communicate(timeout=60)
    trainings.run("import time; lathe_log.init('p', run='later').finish(); time.sleep(0.1)")
    trainings.run(SEND_SPOOL)
    assert list(trainings.spool.iterdir()) == []
    (segment,) = store.runs.segments("r")
    assert (segment.dp_size, segment.end_reason) == (4, "completed")
    assert store.runs.declared("r", 0) == {"rank": 0}
    for rank in range(4):
        name = f"tps@rank={rank}" if rank else "tps"
        assert points(store, "r", name) == [(0, step, step + rank / 10) for step in range(1, 201)]
        assert len(points(store, "r", f"all@rank={rank}")) == 200


def test_going_on_is_another_segment_from_the_first_logged_step(
    api: ApiProcess, trainings: Trainings, store: Store
) -> None:
    api.start()
    for first, last in ((1, 20), (11, 30)):
        trainings.run(
            f"run = lathe_log.init('p', run='r')\n"
            f"run.event('hello')\n"
            f"for step in range({first}, {last} + 1): run.log({{'loss': step + {first} / 100}}, step=step)\n"
            f"run.finish()"
        )
    assert [segment.start_step for segment in store.runs.segments("r")] == [0, 10]
    canonical = store.series.read("r", "loss")
    assert canonical.steps.tolist() == list(range(1, 31))
    assert canonical.segments.tolist() == [0] * 10 + [1] * 20
    assert len(points(store, "r")) == 40, "what was superseded stays"


def test_without_any_lathe_training_goes_on_and_everything_is_sent_later(
    api: ApiProcess, trainings: Trainings, store: Store
) -> None:
    failed = trainings.start("run = lathe_log.init('p', run='r'); run.log({'loss': 2.0}); raise ValueError('broken')")
    _, err = failed.communicate(timeout=60)
    assert failed.returncode == 1
    assert "ValueError: broken" in err
    assert "python -m lathe_log" in err
    api.start()
    out = trainings.run(SEND_SPOOL)
    assert out.startswith("sent 1 logs")
    assert points(store, "r") == [(0, 1, 2.0)]
    assert (store.runs.get("r").state, store.runs.get("r").message) == (RunState.FAILED, "ValueError: broken")


@pytest.mark.parametrize(
    "code",
    [
        "run.log(None); run.log({1: 2}); run.log({'a': object()}, step='x'); run.config(5); run.event(None, kind=3)",
        "run.log({'a' * 600: 1.0, 'b\\0': 1.0, 'big': 10**400}); run.event('x' * 5_000_000)",
        "run.finish(); run.log({'a': 1.0}); run.finish(); run.flush()",
        "lathe_log._runs.clear(); lathe_log.log({'a': 1.0}); lathe_log.finish()",
        "import os, shutil; shutil.rmtree(os.environ['LATHE_SPOOL']); run.log({'a': 1.0}); run.flush(1)",
        "import os; os.environ['LATHE_SPOOL'] = '/dev/null/x'; o = lathe_log.init('p'); o.log({'a': 1}); o.finish()",
        "import os; os.environ['RANK'] = 'first'; o = lathe_log.init('p'); o.config({}); o.event('x'); o.flush()",
        "import os; os.fork() or (run.log({'a': 1.0}), os._exit(0)); os.wait()",
    ],
)
def test_nothing_raises_into_the_training(trainings: Trainings, code: str) -> None:
    end = "\nassert not run.flush(0.1)\nprint('trained')"
    assert trainings.run(f"run = lathe_log.init('p', url='http://127.0.0.1:1')\n{code}{end}") == "trained\n"


def test_flush_waits_for_a_lathe_that_comes_back(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    training = trainings.start(
        """
run = lathe_log.init("p", run="r")
run.log({"loss": 1.0})
print(run.flush(0.1), flush=True)
print(run.flush(60), flush=True)
run.finish()
"""
    )
    assert training.stdout is not None
    assert training.stdout.readline() == "False\n"
    time.sleep(4)  # several attempts fail
    api.start()
    assert training.stdout.readline() == "True\n"
    training.communicate(timeout=30)
    assert points(store, "r") == [(0, 1, 1.0)]


def test_the_spool_is_bounded_and_what_was_dropped_is_said(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    training = trainings.start(
        """
run = lathe_log.init("p", run="r", max_spool_bytes=100_000)
for step in range(1, 5001):
    run.log({"loss": float(step)}, step=step)
print("logged", flush=True)
while not run.flush(5):
    pass
run.log({"loss": 0.0}, step=6000)
run.finish()
"""
    )
    assert training.stdout is not None
    training.stdout.readline()
    api.start()
    training.communicate(timeout=60)
    stored = points(store, "r")
    kept = len(stored) - 1
    assert 500 < kept < 5000
    assert stored == [(0, step, float(step)) for step in range(1, kept + 1)] + [(0, 6000, 0.0)]
    (note,) = store.timeline.list("r", kinds=[TimelineKind.NOTE])
    assert note.title == f"lathe_log dropped {5000 - kept} values: the spool was full"


def test_a_terminated_process_dies_as_it_would_without_us(trainings: Trainings) -> None:
    training = trainings.start("run = lathe_log.init('p'); print('up', flush=True); import time; time.sleep(60)")
    assert training.stdout is not None
    training.stdout.readline()
    training.send_signal(signal.SIGTERM)
    training.communicate(timeout=10)
    assert training.returncode == -signal.SIGTERM


@pytest.mark.skipif(PYTHON_3_9 is None, reason="no Python 3.9 here")
def test_it_runs_on_python_3_9(api: ApiProcess, trainings: Trainings, store: Store) -> None:
    assert PYTHON_3_9 is not None
    api.start()
    trainings.run("with lathe_log.init('p', run='r') as run: run.log({'loss': 1 / 3})", PYTHON_3_9)
    assert points(store, "r") == [(0, 1, 1 / 3)]


def test_it_finds_the_lathe_of_this_machine(
    api: ApiProcess, trainings: Trainings, store: Store, tmp_path: Path
) -> None:
    api.start()
    services = tmp_path / "lathe" / "services"
    services.mkdir(parents=True)
    (services / "api.json").write_text(f'{{"port": {api.port}}}')
    (services / "token").write_text(api.token)
    more = {"LATHE_API_URL": "", "LATHE_TOKEN": "", "LATHE_HOME": str(tmp_path / "lathe")}
    trainings.run("with lathe_log.init('p', run='r') as run: run.log({'loss': 1 / 3})", more=more)
    assert points(store, "r") == [(0, 1, 1 / 3)]


@pytest.mark.slow
def test_random_kills_of_training_and_api_lose_and_double_nothing(
    api: ApiProcess, trainings: Trainings, store: Store
) -> None:
    """Forty kills at random moments: every acknowledged point is there, once, and nothing that was never logged."""
    chance = random.Random(3)
    code = """
import time
run = lathe_log.init("p", run="r{number}", start_step=0)
for step in range(1, 10_000):
    run.log({{"loss": step / 7, "wide": {{str(i): step * i / 3 for i in range(50)}}}}, step=step)
    if step % 20 == 0 and run.flush(3):
        print(step, flush=True)
"""
    acknowledged: dict[str, int] = {}
    api.start()
    for number in range(20):
        training = trainings.start(code.format(number=number))
        time.sleep(chance.uniform(0.1, 1.5))
        api.kill()
        time.sleep(chance.uniform(0.0, 0.5))
        api.start()
        time.sleep(chance.uniform(0.0, 1.5))
        training.kill()
        out, _ = training.communicate()
        acknowledged[f"r{number}"] = max(map(int, out.split()), default=0)
    trainings.run(SEND_SPOOL)
    assert list(trainings.spool.iterdir()) == []
    assert sum(acknowledged.values()) > 0
    for run, least in acknowledged.items():
        for name, factor in (("loss", 1 / 7), ("wide.49", 49 / 3)):
            stored = points(store, run, name) if least else []
            assert len(stored) >= least
            assert [step for _, step, _ in stored] == list(range(1, len(stored) + 1))
            assert all(math.isclose(value, step * factor) for _, step, value in stored)
