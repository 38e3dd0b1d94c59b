"""The trainer's benchmarks: shapes from outside, their own equality checks, and what they say where something lacks."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_trainer
from benchmarks.coding_tasks import Task, coding_tasks
from benchmarks.trainer_parts import dense, muon, peer
from benchmarks.trainer_parts.shapes import SHAPES, Shape, shapes_of
from contracts.errors import EnvironmentFault, UserInputError
from trainer.session import keep_freed_memory, make_deterministic

TINY = Shape(
    name="tiny", num_layers=2, d_model=32, num_heads=2, num_kv_heads=1, head_dim=16, num_experts=4, top_k=2,
    d_expert=16, vocab_size=2048, batch_size=2, seq_len=32,
)  # fmt: skip


def test_shapes_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shapes.json"
    file.write_text(json.dumps([TINY.model_dump()]))
    assert shapes_of(file) == (TINY,)
    assert shapes_of(None) == SHAPES
    for text in ("{", "[]", '[{"name": "a", "width": 3}]'):
        file.write_text(text)
        with pytest.raises(UserInputError, match=r"shapes\.json"):
            shapes_of(file)


def test_a_missing_peer_is_told() -> None:
    if importlib.util.find_spec("transformers"):
        pytest.skip("transformers is installed")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trainer", "--any-load"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "peer-huggingface" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(EnvironmentFault, match="transformers"):
        peer.transformers()


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_candidates_run_and_check_themselves(compute: str) -> None:
    make_deterministic(1)
    keep_freed_memory()
    assert dense.measure(TINY, compute, rounds=1) > 0.0
    assert muon.measure_stack((3, 8, 16), rounds=1) > 0.0
    config = dense.dense_config(TINY, compute)
    assert config.moe.d_dense == TINY.top_k * TINY.d_expert


def test_the_gpu_s_model_equals_its_references() -> None:
    """Here on the CPU's kernels; and the FLOPs are those of 6 per active parameter and token."""
    gpu_trainer.check("cpu")
    size = gpu_trainer.Size(layers=0)
    assert size.flops() == 6 * size.tokens * size.width * size.vocabulary


def test_coding_tasks_have_one_right_answer() -> None:
    """Those that are held out are others of the same families, and every body is one of Python."""
    learned, held_out = coding_tasks(3)
    assert not {task.prompt for task in learned} & {task.prompt for task in held_out}
    assert len(learned) == 3 * len(held_out) == 360
    assert Task(prompt="def mod_7(n):\n", answer="    return n % 7\n") in [*learned, *held_out]
    for task in [*learned, *held_out]:
        compile(task.prompt + task.answer, "task", "exec")
