"""Trainings over real processes give what one process gives that simulates the ranks."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from small_training import PROJECT, SMALL, Trace, Trainings, read_log, small_config

from contracts.errors import ConfigError
from contracts.events import CheckpointSaved, DataRead, Effective, Scalar
from trainer.checkpoint import load_checkpoint
from trainer.config import ParallelConfig
from trainer.ranks.mesh import Mesh
from trainer.recipes import published
from trainer.training import TrainingState
from trainer.weights import parameter_shapes

Overrides = Mapping[str, Scalar]
COMMON: Overrides = {
    "steps": 4, "checkpoint.every": 2, "model.qk_norm": True, "model.attention_bias": True, "moe.num_shared_experts": 1,
    "moe.choice_bias": True, "mtp.num_modules": 1, "moe.balance.coef": 0.5, "diagnostics.detail_every": 2,
}  # fmt: skip
LAYOUTS: dict[str, Overrides] = {
    "two context-parallel ranks, packed rows, accumulation": {
        "parallel.dp_size": 1, "parallel.cp_size": 2, "parallel.accumulation": 2, "data.documents": "packed",
        "data.balance_window": 2,
    },
    "experts on two ranks, tied embeddings, blocks computed again": {
        "parallel.dp_size": 2, "parallel.ep_size": 2, "model.tie_embeddings": True, "muon.split_heads": True,
        "numerics.activation_checkpointing": True,
    },
    "two data-parallel ranks, each in the other's place": {
        "parallel.dp_size": 2, "parallel.places": "1,0", "diagnostics.ranks_every": 2,
    },
}  # fmt: skip
QUANTISED: Overrides = {"numerics.experts.products": "quantised", "numerics.experts.backward": "bf16"}
EXPERTS: dict[str, Overrides] = {
    "kernels": {"parallel.dp_size": 2, "parallel.ep_size": 2, "numerics.experts.products": "kernels"},
    "quantised": {"parallel.dp_size": 2, "parallel.ep_size": 2} | QUANTISED,
}
HALF: dict[str, Overrides] = {
    "FSDP2": {"parallel.dp_size": 2},
    "context parallel, packed rows": {"parallel.dp_size": 1, "parallel.cp_size": 2, "data.documents": "packed"},
    "experts on two ranks": {"parallel.dp_size": 2, "parallel.ep_size": 2, "numerics.experts.products": "kernels"},
}
EIGHT: dict[str, Overrides] = {
    "EP 8, CP 2": {"parallel.dp_size": 4, "parallel.cp_size": 2, "parallel.ep_size": 8, "moe.num_experts": 8},
    "EP 8, CP 8": {"parallel.dp_size": 1, "parallel.cp_size": 8, "parallel.ep_size": 8, "moe.num_experts": 8},
    "EP 2, CP 2": {"parallel.dp_size": 4, "parallel.cp_size": 2, "parallel.ep_size": 2, "moe.num_experts": 8},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "recipe.py").write_text(PROJECT.format(small=SMALL))
    return folder


def start(
    folder: Path, project: Path, overrides: Overrides, common: Overrides = COMMON, **fields: object
) -> subprocess.Popen[str]:
    trainings = Trainings(run_folder=folder, project=project)
    return trainings.start(overrides=dict(common) | dict(overrides), **fields)


def trained(folder: Path, project: Path, overrides: Overrides, **fields: object) -> tuple[Trace, TrainingState]:
    """The log of a finished training, and its last checkpoint."""
    process = start(folder, project, overrides, **fields)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    trace = read_log(folder)
    return trace, load_checkpoint(Path(last_checkpoint(trace)))


def last_checkpoint(trace: Trace, step: int | None = None) -> str:
    saved = [event for event in trace.of(CheckpointSaved) if isinstance(event, CheckpointSaved)]
    return [event.path for event in saved if step is None or event.step == step][-1]


def virtual(layout: Overrides) -> dict[str, Scalar]:
    """The same ranks, simulated."""
    return dict(layout) | {"parallel.processes": False, "parallel.ep_size": 1}


def real(layout: Overrides) -> dict[str, Scalar]:
    return dict(layout) | {"parallel.processes": True}


def assert_equal(found: tuple[Trace, TrainingState], expected: tuple[Trace, TrainingState], atol: float = 1e-6) -> None:
    """The samples of each step, and every series of every step, every weight and every moment, up to rounding."""
    (trace, state), (trace_1, state_1) = found, expected
    assert trace.metrics.keys() == trace_1.metrics.keys()
    assert trace.of(DataRead) == trace_1.of(DataRead)
    for step, values in trace_1.metrics.items():
        wanted = {name: value for name, value in values.items() if not name.startswith("step_time")}
        own = ("step_time", "self_check")
        got = {name: value for name, value in trace.metrics[step].items() if not name.startswith(own)}
        assert {value for name, value in trace.metrics[step].items() if name.startswith("self_check")} == {0.0}
        assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert state.weights.keys() == state_1.weights.keys()
    for name, weight in state_1.weights.items():
        torch.testing.assert_close(state.weights[name], weight, atol=atol, rtol=1e-5)
    for name, kept in state_1.optimizer.items():
        for key, tensor in kept.tensors.items():
            torch.testing.assert_close(state.optimizer[name].tensors[key], tensor, atol=atol, rtol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_processes_equal_one_process(layout: str, project: Path, tmp_path: Path) -> None:
    """Shows RC2-7.6: sharded by FSDP2 with context-parallel ranks folded in, results are those of one process.

    Also the gradient norm: each parameter counts once, whichever process holds which part of it.
    """
    expected = trained(tmp_path / "one", project, virtual(LAYOUTS[layout]))
    assert_equal(trained(tmp_path / "many", project, real(LAYOUTS[layout])), expected)


def test_stages_over_processes_equal_one_process(project: Path, tmp_path: Path) -> None:
    """`recipes.three_stages`, shortened, with experts on two ranks: rows, rotation and optimizer change on all."""
    (project / "recipe.py").write_text("from trainer.recipes.three_stages import recipe\n")
    short: Overrides = {
        "stages.short.steps": 2, "stages.mixture.steps": 1, "stages.long.steps": 2, "data.corpus_bytes": 40_000,
        "parallel.dp_size": 2, "parallel.ep_size": 2,
    }  # fmt: skip
    expected = trained(tmp_path / "one", project, virtual(short), common={})
    found = trained(tmp_path / "many", project, real(short), common={})
    assert_equal(found, expected)
    names = [
        e.values["stage.name"] for e in found[0].of(Effective) if isinstance(e, Effective) if "stage.name" in e.values
    ]
    assert names == ["short", "mixture", "long"]


@pytest.mark.parametrize("layout", EXPERTS)
def test_experts_elsewhere_by_every_product(layout: str, project: Path, tmp_path: Path) -> None:
    """Fused, and quantised with MXFP8 tokens and BF16 results on the wire (RC2-7.7): as in one process.

    The MXFP8 weight gradients have scales over neighbouring rows, and which rows those are depends on the layout:
    equality is one of a BF16 backward, up to sums that a format rounds the other way.
    """
    short = EXPERTS[layout] | {"steps": 2, "mtp.num_modules": 0}
    expected = trained(tmp_path / "one", project, virtual(short))
    assert_equal(trained(tmp_path / "many", project, real(short)), expected, atol=1e-4)


@pytest.mark.parametrize("layout", HALF)
def test_bfloat16_over_processes(layout: str, project: Path, tmp_path: Path) -> None:
    """Losses agree to bfloat16's rounding, and the weights move the same way from the same start."""
    half = HALF[layout] | {"numerics.compute": "bfloat16", "mtp.num_modules": 0}
    (one, state_1), (many, state) = (
        trained(tmp_path / name, project, kind(half)) for name, kind in (("one", virtual), ("many", real))
    )
    for step, values in one.metrics.items():
        assert many.metrics[step]["lm_loss"] == pytest.approx(values["lm_loss"], rel=2e-3)
        assert many.metrics[step]["grad_norm"] == pytest.approx(values["grad_norm"], rel=3e-2)
    start = load_checkpoint(Path(last_checkpoint(one, 2))).weights
    moved = [torch.cat([(s.weights[n] - w).flatten() for n, w in start.items()]) for s in (state_1, state)]
    assert torch.nn.functional.cosine_similarity(*moved, dim=0) > 0.98


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_layouts_of_eight_processes_continue_each_other(project: Path, tmp_path: Path) -> None:
    """Shows RC2-7.1, RC2-7.2: EP 8 with CP 2 and CP 8 on eight processes, each resumed from another's checkpoint.

    The batch is that of a single process throughout; experts are spread independently of the dense weights.
    """
    expected = trained(tmp_path / "one", project, virtual(EIGHT["EP 8, CP 2"]))
    first = trained(tmp_path / "first", project, real(EIGHT["EP 8, CP 2"]))
    assert_equal(first, expected)
    for index, layout in enumerate(("EP 8, CP 8", "EP 2, CP 2")):
        fields = {"start_checkpoint": last_checkpoint(first[0], 2), "segment": 0}
        trace, state = trained(tmp_path / f"next{index}", project, real(EIGHT[layout]), **fields)
        for step in (3, 4):
            assert trace.metrics[step]["loss"] == pytest.approx(expected[0].metrics[step]["loss"], rel=1e-5)
        for name, weight in expected[1].weights.items():
            torch.testing.assert_close(state.weights[name], weight, atol=2e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_process_is_named_and_the_run_goes_on(project: Path, tmp_path: Path) -> None:
    """SIGKILL of one process ends the others; the next start continues from the last checkpoint to equal weights."""
    layout = real({"parallel.dp_size": 2}) | {"steps": 400, "checkpoint.every": 3, "checkpoint.keep": 2}
    folder = tmp_path / "killed"
    process = start(folder, project, layout)
    log = folder / "segment-000" / "events.log"
    while b"checkpoint_saved" not in (log.read_bytes() if log.is_file() else b"") and process.poll() is None:
        time.sleep(0.02)
    (other,) = children(process.pid)
    os.kill(other, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert re.search("process 1 of 2 of this training is gone.*start the run again", said, re.DOTALL)
    step = max(event.step for event in read_log(folder).of(CheckpointSaved) if isinstance(event, CheckpointSaved))
    ends = {"steps": step + 2}
    again = trained(folder, project, layout | ends)
    whole = trained(tmp_path / "whole", project, virtual(layout) | ends)
    for name, weight in whole[1].weights.items():
        torch.testing.assert_close(again[1].weights[name], weight, atol=1e-6, rtol=1e-5)


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_both_meshes() -> None:
    """Shows RC2-7.1, RC2-7.5: experts on a mesh of their own; every row of a weight lies in exactly one place."""
    mesh = Mesh.of(ParallelConfig(dp_size=4, cp_size=2, ep_size=4, processes=True))
    assert mesh.lines() == [
        "8 processes; dense weights: data parallel 4 x context parallel 2, cut over all 8",
        "experts: expert parallel 4, each part cut over 2",
    ]
    for rows, is_expert in ((8, True), (32, True), (1, False), (12, False), (64, False)):
        held = [row for start, stop in mesh.spans(rows, is_expert=is_expert) for row in range(start, stop)]
        assert sorted(held) == list(range(rows))
    assert mesh.expert_peers() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mesh.expert_replicas() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    columns = [mesh.columns(rank, 16) for rank in range(2)]
    assert sorted(torch.cat(columns).tolist()) == list(range(16))
    assert len({int((rank + 1).sum()) for rank in columns}) == 1  # pairs of the causal mask


@pytest.mark.parametrize("cp_size", [2, 4, 8])
def test_pairs_of_positions_are_shared_out_evenly(cp_size: int) -> None:
    """Shows RC2-7.5: equal causal work on all ranks; cut end to end, the last rank has 2 * CP - 1 times the first's."""
    mesh, seq_len = Mesh(dp_size=1, cp_size=cp_size, ep_size=1), 8192
    paired = [int((mesh.columns(rank, seq_len) + 1).sum()) for rank in range(cp_size)]
    assert set(paired) == {seq_len * (seq_len + 1) // 2 // cp_size}
    contiguous = [int((part + 1).sum()) for part in torch.arange(seq_len).chunk(cp_size)]
    assert contiguous[-1] / contiguous[0] == pytest.approx(2 * cp_size - 1, rel=2e-3)


def test_bytes_of_a_rank_fall_by_the_context_parallel_factor() -> None:
    """Shows RC2-7.6, counted on the published model: parameters that a rank holds, and with them its optimizer."""
    config = published.recipe().plan()[0].config
    shapes = parameter_shapes(config.model, config.moe, config.mtp)

    def held(cp_size: int, rank: int) -> int:
        mesh = Mesh(dp_size=8, cp_size=cp_size, ep_size=8)
        spans = {n: mesh.spans(shape[0], is_expert=".experts." in n)[rank] for n, shape in shapes.items()}
        return sum((stop - start) * math.prod(shapes[name][1:]) for name, (start, stop) in spans.items())

    for cp_size in (2, 4, 8):
        for rank in (0, 7):
            assert held(1, rank) / held(cp_size, rank) == pytest.approx(cp_size, rel=1e-3)


def test_tokens_of_an_expert_product_grow_with_expert_parallelism() -> None:
    """Shows RC2-7.1: the same 8 processes and tokens; with EP 8 each product has the rows of all, 8 times as many."""
    num_experts, top_k, tokens = 32, 4, 4096  # tokens of one process
    generator = torch.Generator().manual_seed(1)
    chosen = [torch.rand(tokens, num_experts, generator=generator).topk(top_k).indices for _ in range(8)]
    sent_WE = torch.stack([torch.bincount(each.flatten(), minlength=num_experts) for each in chosen])
    found = {}
    for ep_size in (1, 2, 8):
        mesh, each = Mesh(dp_size=4, cp_size=2, ep_size=ep_size), num_experts // ep_size
        rows = [
            sent_WE[peers, each * place : each * (place + 1)].sum(dim=0)
            for peers in mesh.expert_peers()
            for place in range(ep_size)
        ]
        products = torch.cat(rows)
        assert int(products.sum()) == 8 * tokens * top_k, "every token's pairs are computed once"
        found[ep_size] = float(products.double().mean())
    assert found == {1: 512.0, 2: 1024.0, 8: 4096.0}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"parallel.ep_size": 2}, "parallel.ep_size spreads experts over processes"),
        ({**real({}), "parallel.ep_size": 3}, "parallel.ep_size 3 does not divide both"),
        ({**real({}), "moe.router_jitter": 0.1}, "moe.router_jitter .* not with parallel.processes"),
        (
            {**real({}), "parallel.cp_size": 2, "mtp.num_modules": 1, "mtp.teacher": "main_head"},
            "mtp.teacher main_head looks ahead",
        ),
    ],
)
def test_what_processes_cannot_do_is_refused(overrides: Overrides, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small_config().with_overrides(dict(overrides))
