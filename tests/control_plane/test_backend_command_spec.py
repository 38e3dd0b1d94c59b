"""The spec of a foreign training: what is refused and how it is said, and what process a launch becomes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from foreign_project import write_spec

from contracts.backend import Launch
from contracts.errors import ConfigError, NotFound
from control_plane.backends.command_line import Invocation, invocation
from control_plane.backends.command_registry import Registry
from control_plane.backends.command_spec import BackendSpec, parse_spec

BASE = """
name = "other"
command = ["sh", "-c", "{seed} {steps} {output_dir}", "{overrides}"]
steps = 10
[log]
file = "stdout"
format = "jsonl"
"""


def spec(*changes: tuple[str, str]) -> BackendSpec:
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_spec(text, Path("other.toml"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("steps = 10", "steps = 10\nspeed = 3"), "speed: Extra inputs are not permitted"),
        (("steps = 10", "steps = 0"), "steps: Input should be greater than or equal to 1"),
        (('name = "other"', 'name = "Other One"'), "name: String should match pattern"),
        (('name = "other"', 'name = "embedded"'), "name: 'embedded' is the trainer of Lathe itself"),
        (("{seed}", "{sead}"), "command: {sead} cannot stand in"),
        (('"{overrides}"', '"--all={overrides}"'), "command: {overrides} cannot stand in"),
        (("{steps}", ""), "the command is not told how far to train: write {steps} into it"),
        (('format = "jsonl"', 'format = "xml"'), "log.format: Input should be 'jsonl', 'csv'"),
        (('format = "jsonl"', 'format = "regex"'), "log: pattern belongs to format = 'regex'"),
        (('format = "jsonl"', 'format = "regex"\npattern = "step (.*)"'), "pattern needs the group (?P<step>...)"),
        (('format = "jsonl"', "format = 'jsonl'\nrename = {'(' = 'x'}"), "log.rename: '(' is no regular expression"),
        (('format = "jsonl"', "format = 'jsonl'\nrename = {'a' = '\\1'}"), "names a group that 'a' lacks"),
        (('format = "jsonl"', "format = 'jsonl'\n[checkpoints]\nglob = '*'\nstep = 'x'"), "checkpoints.step: needs a"),
        (('format = "jsonl"', "format = 'jsonl'\n[checkpoints]\nglob = '*'\nstep = '(.)'"), "resume and checkpoints"),
        (('format = "jsonl"', "format = 'jsonl'\n[config]\noverrides = 'file'"), "which config to read"),
        (("steps = 10", "steps = = 10"), "other.toml: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_field(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec(change)
    assert "other.toml" in caught.value.message
    assert message in caught.value.message
    assert caught.value.remedy


def invoked(tmp_path: Path, found: BackendSpec, **changes: Any) -> Invocation:
    launch = Launch(run_id="r", segment=0, run_folder=str(tmp_path / "r"), project=str(tmp_path), code_version="")
    launch = dataclasses.replace(launch, **changes)
    return invocation(found, launch, attempt=tmp_path, checkpoint="", environment={"PATH": "/bin"})


def test_overrides_become_arguments(tmp_path: Path) -> None:
    found = invoked(tmp_path, spec(), overrides={"optim.lr": 1e-05, "fast": True, "name": "a b", "steps": 7}, seed=3)
    assert found.arguments[1:] == (
        "-c", f"3 7 {tmp_path}/output", "--optim.lr=1e-05", "--fast=true", "--name=a b",
    )  # fmt: skip
    assert found.declared == {"optim.lr": 1e-05, "fast": True, "name": "a b", "seed": 3, "steps": 7}


def test_the_last_step_of_a_launch_is_not_a_change_of_the_plan(tmp_path: Path) -> None:
    found = invoked(tmp_path, spec(), max_step=4)
    assert (found.steps, found.declared["steps"]) == (4, 10)


def test_overrides_become_environment(tmp_path: Path) -> None:
    found = invoked(
        tmp_path,
        spec(("[log]", "[config]\noverrides = 'environment'\nprefix = 'RUN_'\n[log]"), (', "{overrides}"', "")),
        overrides={"optim.lr": 0.1},
    )
    assert found.environment == {"PATH": "/bin", "RUN_OPTIM_LR": "0.1"}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_overrides_become_a_file(tmp_path: Path, suffix: str) -> None:
    """Numbers keep their type: a YAML reader takes `1e-05` for text, so it is not written like that."""
    import yaml

    (tmp_path / f"base{suffix}").write_text('{"optim": {"lr": 0.1, "betas": [0.9, 0.95]}, "seed": 0}')
    section = f"[config]\nbase = 'base{suffix}'\noverrides = 'file'\nfields = {{ seed = '{{seed}}' }}\n[log]"
    found = invoked(
        tmp_path,
        spec(("[log]", section), ('"{overrides}"', '"{config_file}"')),
        overrides={"optim.lr": 1e-05},
        seed=9,
    )
    text = Path(found.arguments[-1]).read_text()
    tree = json.loads(text) if suffix == ".json" else yaml.safe_load(text)
    assert tree == {"optim": {"lr": 1e-05, "betas": [0.9, 0.95]}, "seed": 9}
    assert found.declared == {"optim.lr": 1e-05, "optim.betas": "[0.9, 0.95]", "seed": 9, "steps": 10}


def test_versions_stay_when_the_spec_changes(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "backends")
    first = registry.read(write_spec(tmp_path / "a.toml"))
    registry.make_present(first)
    second = registry.read(write_spec(tmp_path / "a.toml", ("steps = 100", "steps = 200")))
    registry.make_present(second)
    assert registry.get("tiny").spec.steps == 200
    assert registry.names() == ["tiny"]
    assert {path.stem for path in (tmp_path / "backends").iterdir()} == {"tiny", first.version, second.version}
    registry.remove("tiny")
    with pytest.raises(NotFound, match="no backend 'tiny'"):
        registry.get("tiny")
