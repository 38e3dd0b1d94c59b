"""The benchmarks' own machinery: ratios, equality first, shapes, and refusing a busy machine."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from contracts.errors import EnvironmentFault
from kernels.grouped_gemm.bench import Cell, draw_loads, measure
from kernels.measure import geometric_mean, interleave, refuse_a_busy_machine, require_close, speedup, undisturbed

ROOT = Path(__file__).parents[2]


def test_ratios_are_medians_of_pairs() -> None:
    assert speedup({"ours": [1.0, 2.0, 4.0], "peer": [2.0, 2.0, 12.0]}, "ours", "peer") == 2.0
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def test_every_round_runs_every_candidate_in_turn() -> None:
    order: list[str] = []
    times = interleave({name: (lambda name=name: order.append(name)) for name in "abc"}, rounds=2, warmup=1)
    assert "".join(order) == "abcacbbac"
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 2, "b": 2, "c": 2}


def test_unequal_results_are_refused() -> None:
    require_close([torch.tensor([1.0])], [torch.tensor([1.001])], relative=1e-2)
    with pytest.raises(AssertionError, match="differ"):
        require_close([torch.tensor([1.0])], [torch.tensor([1.1])], relative=1e-2)
    with pytest.raises(AssertionError):
        require_close([torch.tensor([float("nan")])], [torch.tensor([1.0])], relative=1e-2)


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 0.0, 0.0))
    with pytest.raises(EnvironmentFault, match="load average"):
        refuse_a_busy_machine()


def test_a_disturbed_measurement_is_taken_again_and_finally_refused() -> None:
    calls: list[int] = []

    def measure() -> int:
        calls.append(len(calls))
        if len(calls) < 3:
            spin = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
            spinning = subprocess.Popen([sys.executable, "-S", "-c", spin])
            time.sleep(0.3)
            others.append(spinning)
        else:
            time.sleep(0.1)
        return calls[-1]

    others: list[subprocess.Popen[bytes]] = []
    assert undisturbed(measure, limit=math.inf) == 0
    with pytest.raises(EnvironmentFault, match="other processes kept"):
        undisturbed(measure, tries=1, limit=0.0)
    for process in others:
        process.wait()


@pytest.mark.parametrize("loads", ["equal", "uniform", "dirichlet", (3, 0, 5, 8)])
def test_a_cell_is_drawn_and_measured(loads: str | tuple[int, ...]) -> None:
    cell = Cell(rows=16, inner=16, outer=8, experts=4, loads=loads, dtype=torch.bfloat16)
    assert sum(draw_loads(cell, 1)) == 16
    ratios = measure(cell, rounds=1, new_rounds=1)
    assert ratios.x_torch > 0
    assert ratios.of_dense > 0
    assert (ratios.x_torch_new is not None) == (loads in ("uniform", "dirichlet"))


def test_the_benchmark_takes_shapes_and_prints_one_object(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.json"
    shapes.write_text(
        json.dumps([{"rows": 64, "inner": 16, "outer": 8, "experts": [4], "loads": ["uniform", [1, 0, 9]]}])
    )
    command = [sys.executable, "-m", "benchmarks.kernels", "--json", "--any-load", "--rounds", "1"]
    command += ["--parts", "gemm", "--shapes", str(shapes), "--keep", str(tmp_path / "figures")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert len(figures["gemm_cells"]) == 4
    assert figures["gemm_worst"] == min(cell["x_torch"] for cell in figures["gemm_cells"])
    assert figures["gemm_x_torch_bf16"] > 0
    assert figures["goals_met"]["gemm_worst"] == (figures["gemm_worst"] >= 0.95)
    assert "worst cell" in done.stderr
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout.splitlines()[-1]) == figures, "what was kept is not measured again"


def test_without_a_gpu_the_gpu_benchmark_says_not_run() -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    command = [sys.executable, "-m", "benchmarks.gpu_kernels"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "not run"
