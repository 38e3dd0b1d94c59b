"""A recipe that cannot run is refused before the first step, with the field and the remedy."""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path

import pytest
from small_training import Trainings, small_config

from contracts.errors import ConfigError, EnvironmentFault, LatheError, UserInputError
from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.feasibility import activation_bytes, check_feasible, machine_memory, process_bytes, state_bytes
from trainer.groups import assign_groups
from trainer.optim import Optimizer
from trainer.parts import parameter_group
from trainer.plan import plan_lines
from trainer.recipe import Recipe
from trainer.weights import initial_weights, num_parameters, parameter_shapes

MANY = {"model.num_layers": 2000, "model.d_model": 16384, "moe.num_experts": 512}
LONG: dict[str, Scalar] = {"data.seq_len": 2_000_000, "model.rope_base": 5e6, "model.head_dim": 128}


@pytest.mark.parametrize(
    ("overrides", "message", "remedy"),
    [
        (MANY, r"model.\* and moe.\* sizes need at least .* GiB of memory", "make the model smaller"),
        (LONG, "data.batch_size 8 with data.seq_len 2000000 need at least .* GiB", "parallel.accumulation"),
        ({"data.documents": "answers"}, "data.examples names no file", "JSONL"),
        ({"data.documents": "answers", "data.examples": "none.jsonl"}, "none.jsonl cannot be read", "JSONL"),
        (
            {"data.seq_len": 12_000, "model.rope_base": 1e6},
            "data.seq_len 12000 does not fit source",
            "raise data.corpus_bytes",
        ),
        ({"data.seq_len": 1_000, "model.rope_base": 10.0}, "data.seq_len 1000 is beyond .*model.rope_base", ""),
        ({"data.batch": 1}, "unknown config field 'data.batch'", "data.batch_size"),
    ],
)
def test_it_is_refused_before_training(
    overrides: dict[str, Scalar], message: str, remedy: str, trainings: Trainings
) -> None:
    with pytest.raises(LatheError, match=message) as caught:
        trainings.here(small_config().with_overrides(overrides))
    assert isinstance(caught.value, UserInputError)
    assert remedy in caught.value.remedy
    log = trainings.run_folder / "segment-000" / "events.log"
    assert not log.exists() or b'"kind":"metrics"' not in log.read_bytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of"),
        ('{"prompt": "a"}', "line 2 of"),
        ('{"prompt": "a", "answer": 3}', "line 2 of"),
        ("[]", "line 2 of"),
        ('{"prompt": "", "answer": "b"}', "line 2 of.*is empty"),
        ('{"prompt": "a", "answer": "b\\u0000"}', "line 2 of.*zero byte"),
        ('{"prompt": "aaaaaaaaaaaaaaaaaa", "answer": "b"}', "line 2 of .* has 20 tokens, a row 17"),
    ],
)
def test_a_wrong_example_is_named(line: str, message: str, trainings: Trainings, tmp_path: Path) -> None:
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"prompt": "a", "answer": "b"}\n' + line + "\n")
    with pytest.raises(UserInputError, match=message):
        trainings.here(small_config(data__documents="answers", data__examples=str(examples)))


def test_a_missing_corpus_is_named(trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose standard library was removed."""
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(EnvironmentFault, match="no text for the corpus source 'library'") as caught:
        trainings.here(small_config())
    assert "standard library" in caught.value.remedy


def test_memory_is_counted_from_below() -> None:
    """The count of weights and optimizer is exact; what just fits is let through, one byte less is refused."""
    config = small_config(moe__num_experts=8)
    shapes = parameter_shapes(config.model, config.moe, config.mtp)
    groups = assign_groups(shapes, parameter_group, config.optim)
    optimizer = Optimizer(initial_weights(config), groups, config.optim, config.muon, {}, config.model.head_dim)
    held = sum(weight.nbytes for weight in optimizer.weights.values()) * 2
    held += sum(t.nbytes for state in optimizer.states().values() for t in state.tensors.values())
    assert state_bytes(config, parameter_group) == held
    needed = held + activation_bytes(config)
    check_feasible(config, parameter_group, needed)
    with pytest.raises(ConfigError, match="need at least"):
        check_feasible(config, parameter_group, needed - 1)


def test_this_machine_runs_the_default() -> None:
    check_feasible(TrainConfig(), parameter_group, machine_memory())
    assert activation_bytes(small_config(parallel__accumulation=4)) * 4 == activation_bytes(small_config())


def test_memory_of_one_of_several_processes() -> None:
    """Its cut, and whole weights and moments at a checkpoint; with context parallelism whole matrices of own rows."""
    layout: dict[str, Scalar] = {"parallel__dp_size": 2, "parallel__cp_size": 2, "data__seq_len": 512}
    alone, one = small_config(**layout), small_config(**layout, parallel__processes=True)
    whole = state_bytes(alone, parameter_group)
    assert process_bytes(alone, parameter_group) == whole
    weights = 4 * num_parameters(parameter_shapes(one.model, one.moe))
    assert process_bytes(one, parameter_group) == math.ceil(whole / 4) + whole - weights
    heads, groups, rows, own = 2, 2, 4, 256
    probabilities, mask, logits = 2 * rows * heads * own * 512, groups * own * 512, 2 * rows * own * 256
    assert activation_bytes(one) == 4 * (probabilities + mask + logits)
    with pytest.raises(ConfigError, match="need at least"):
        check_feasible(one, parameter_group, process_bytes(one, parameter_group) + activation_bytes(one) - 1)
    (line,) = [line for line in plan_lines(Recipe(config=one)) if "memory" in line]
    assert line == (
        "  memory of a process: 0.2 MiB for weights, gradients and moments, of which a checkpoint gathers all, "
        "at least 11.0 MiB for activations"
    )
