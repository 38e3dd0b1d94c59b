"""Checkpoints: exact, whole, hashed, refused when damaged."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from small_training import Trainings, equal_bits, small_config

from contracts.errors import ConfigError, NotFound, UserInputError
from contracts.events import CheckpointSaved, Scalar, SegmentStarted
from trainer import Recipe, TrainConfig
from trainer.checkpoint import load_checkpoint, save_checkpoint
from trainer.corpus import Corpus
from trainer.training import Training, TrainingState


def training(corpus: Corpus, config: TrainConfig, state: TrainingState | None = None) -> Training:
    return Training(Recipe(config=config), corpus, state, itertools.count(1.0).__next__)


def copy_of(state: TrainingState) -> TrainingState:
    """A copy that further steps do not change."""
    optimizer = {
        name: replace(parameter, tensors={key: tensor.clone() for key, tensor in parameter.tensors.items()})
        for name, parameter in state.optimizer.items()
    }
    weights = {name: weight.clone() for name, weight in state.weights.items()}
    return replace(state, weights=weights, optimizer=optimizer)


def assert_equal_states(a: TrainingState, b: TrainingState) -> None:
    assert (a.step, a.loader.consumed, a.loader.events) == (b.step, b.loader.consumed, b.loader.events)
    assert a.loader.seen.tobytes() == b.loader.seen.tobytes()
    assert set(a.weights) == set(b.weights)
    for name, weight in a.weights.items():
        assert equal_bits(weight, b.weights[name]), name
        ours, theirs = a.optimizer[name], b.optimizer[name]
        assert (ours.optimizer, ours.age) == (theirs.optimizer, theirs.age)
        assert all(equal_bits(tensor, theirs.tensors[key]) for key, tensor in ours.tensors.items())


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_resume_is_bitwise(corpus: Corpus, tmp_path: Path, jitter: float) -> None:
    """Losses, weights, optimizer state and random numbers go on as if nothing had happened."""
    config = small_config(moe__router_jitter=jitter)
    whole = training(corpus, config)
    records = [whole.advance() for _ in range(6)]
    first = training(corpus, config)
    for _ in range(3):
        first.advance()
    save_checkpoint(first.state(), tmp_path / "step-000003")
    resumed = training(corpus, config, load_checkpoint(tmp_path / "step-000003"))
    torch.manual_seed(77)  # whatever the process drew before does not matter
    again = [resumed.advance() for _ in range(3)]
    for before, after in zip(records[3:], again, strict=True):
        assert after.sample_hash == before.sample_hash
        timeless = {k: v for k, v in before.values.items() if k not in ("step_time_s", "tokens_per_second")}
        assert {k: after.values[k] for k in timeless} == timeless
    assert_equal_states(whole.state(), resumed.state())


def test_equal_states_have_equal_hashes(corpus: Corpus, tmp_path: Path) -> None:
    """Whichever run wrote them, so that an A/A replay can be compared by hash."""
    hashes = []
    for run in ("a", "b"):
        one = training(corpus, small_config())
        one.advance()
        hashes.append(save_checkpoint(one.state(), tmp_path / run / "step-000001").sha256)
        one.advance()
        hashes.append(save_checkpoint(one.state(), tmp_path / run / "step-000002").sha256)
    assert hashes[0] == hashes[2] != hashes[1] == hashes[3]


@pytest.mark.parametrize("file", ["tensors.bin", "state.json", "sha256"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_damaged_checkpoint_is_refused(corpus: Corpus, tmp_path: Path, file: str, damage: str) -> None:
    """The message names what is wrong and the last good checkpoint."""
    one = training(corpus, small_config())
    for step in (1, 2, 3):
        one.advance()
        save_checkpoint(one.state(), tmp_path / f"step-{step:06d}")
    path = tmp_path / "step-000002" / file
    content = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "truncated":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    with pytest.raises(UserInputError, match="step-000002 is damaged") as caught:
        load_checkpoint(tmp_path / "step-000002")
    assert caught.value.remedy == f"the last good one is {tmp_path / 'step-000001'}"
    saved = save_checkpoint(one.state(), tmp_path / "step-000002")
    assert load_checkpoint(saved.path).step == 3


def test_missing_checkpoint_names_another(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no checkpoint") as caught:
        load_checkpoint(tmp_path / "step-000009")
    assert "start from random weights" in caught.value.remedy
    one = training(corpus, small_config())
    one.advance()
    save_checkpoint(one.state(), tmp_path / "step-000001")
    with pytest.raises(NotFound) as caught:
        load_checkpoint(tmp_path / "step-000009")
    assert "step-000001" in caught.value.remedy


def test_no_partial_checkpoint_is_ever_visible(corpus: Corpus, tmp_path: Path) -> None:
    """What a killed writer leaves does not look like a checkpoint and does not disturb the next one."""
    one = training(corpus, small_config())
    one.advance()
    partial = tmp_path / ".step-000001.partial"
    partial.mkdir()
    (partial / "tensors.bin").write_bytes(b"half")
    saved = save_checkpoint(one.state(), tmp_path / "step-000001")
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]
    assert load_checkpoint(saved.path).step == 1


@pytest.mark.parametrize("packed", [False, True])
def test_resume_with_other_ranks_is_close(corpus: Corpus, packed: bool) -> None:
    """Losses and weights agree to 1e-6 when a checkpoint goes on with another number of ranks or micro-batches."""
    kind: dict[str, Scalar] = {"data.documents": "packed", "data.balance_window": 2} if packed else {}
    config = small_config().with_overrides(kind)
    one = training(corpus, config)
    one.advance()
    one.advance()
    state = copy_of(one.state())
    whole = [one.advance() for _ in range(3)]
    for topology in (
        {"parallel.dp_size": 1},
        {"parallel.dp_size": 8},
        {"parallel.accumulation": 2},
        {"parallel.cp_size": 2},
    ):
        other = training(corpus, config.with_overrides(topology), copy_of(state))
        for before, after in zip(whole, [other.advance() for _ in range(3)], strict=True):
            assert after.sample_hash == before.sample_hash
            assert after.values["lm_loss"] == pytest.approx(before.values["lm_loss"], abs=1e-6)
        for name, weight in one.state().weights.items():
            torch.testing.assert_close(other.state().weights[name], weight, rtol=0, atol=1e-6)


def write_forever(one: Training, folder: Path, written: Connection) -> None:
    for step in itertools.count(1):
        save_checkpoint(one.state(), folder / f"step-{step % 3:06d}")
        one.advance()
        written.send(step)


def test_killed_while_it_writes(corpus: Corpus, tmp_path: Path) -> None:
    """SIGKILL at some moment of writing, over and over: what looks like a checkpoint is one, and two are left."""
    one = training(corpus, small_config(moe__d_expert=512))
    one.advance()
    for attempt in range(6):
        folder = tmp_path / str(attempt)
        heard, written = multiprocessing.Pipe(duplex=False)
        writer = multiprocessing.get_context("fork").Process(target=write_forever, args=(one, folder, written))
        writer.start()
        for _ in range(3 + attempt % 3):
            heard.recv()
        time.sleep(0.002 * attempt)
        writer.kill()
        writer.join()
        found = sorted(folder.glob("step-*"))
        assert len(found) >= 2
        assert all(load_checkpoint(path).step > 0 for path in found)


def test_other_shapes_are_refused(corpus: Corpus) -> None:
    one = training(corpus, small_config())
    with pytest.raises(ConfigError, match=r"'layers.0.experts.gate' has shape \(4, 8, 16\).*asks for \(4, 12, 16\)"):
        training(corpus, small_config(moe__d_expert=12), one.state())


def test_a_parameter_that_is_new_starts_at_its_initial_value(corpus: Corpus) -> None:
    one = training(corpus, small_config())
    one.advance()
    grown = training(corpus, small_config(moe__router_bias=True), one.state())
    assert grown.state().weights["layers.0.router.bias"].abs().max() == 0.0
    assert grown.state().optimizer["layers.0.router.bias"].age == 0
    assert grown.state().optimizer["layers.0.router.weight"].age == 1
    grown.advance()


def test_segments_of_a_run_do_not_overwrite_each_other(trainings: Trainings) -> None:
    """A second segment from an earlier step writes the same step beside the first one's."""
    first = trainings.here(small_config())
    paths = {event.step: event.path for event in first.of(CheckpointSaved)}
    second = trainings.here(small_config(moe__balance__coef=0.5), segment=1, start_checkpoint=paths[2])
    assert second.of(SegmentStarted)[0].start_step == 2
    assert [Path(event.path).name for event in second.of(CheckpointSaved)] == [
        "step-000004-segment-001",
        "step-000006-segment-001",
    ]
    for event in (*first.of(CheckpointSaved), *second.of(CheckpointSaved)):
        assert load_checkpoint(Path(event.path)).step == event.step


def test_keep_removes_older_ones(trainings: Trainings) -> None:
    trainings.here(small_config(checkpoint__every=1, checkpoint__keep=2))
    names = sorted(path.name for path in (trainings.run_folder / "checkpoints").iterdir())
    assert names == ["step-000005", "step-000006"]
