"""From a spec and a launch to a process: arguments, environment, config file, and the config it declares."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.backend import Launch
from contracts.errors import ConfigError
from contracts.events import Scalar
from control_plane.backends.command_spec import BackendSpec, filled

_FACTS_WAIT_S = 60.0
_PACKAGES = ("torch", "numpy", "transformers", "accelerate", "lightning", "litgpt", "jax", "datasets", "triton")
_FACTS = """
import importlib.metadata, json, platform
facts = {"python": platform.python_version()}
for name in %r:
    try:
        facts["package." + name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(facts))
"""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """A process to start. `declared`: config fields with dotted keys; `seed` and `steps` (the plan) are among them."""

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    declared: Mapping[str, Scalar]
    seed: int
    steps: int


def invocation(
    spec: BackendSpec, launch: Launch, *, attempt: Path, checkpoint: str, environment: Mapping[str, str]
) -> Invocation:
    """The process of one attempt; its files lie in `attempt`. `checkpoint` "" begins from random weights.

    Overrides of `seed` and `steps` fill the placeholders of that name; the others are passed as the spec says.
    Writes the config file when the spec asks for one. Raises ConfigError.
    """
    plan = {"seed": spec.seed, "steps": spec.steps}
    plan |= {key: _whole(key, value) for key, value in launch.overrides.items() if key in plan}
    seed = plan["seed"] if launch.seed is None else launch.seed
    steps = plan["steps"] if launch.max_step is None else launch.max_step
    values = _values(spec, launch, attempt) | {"seed": str(seed), "steps": str(steps)}
    fields = {key: _typed(filled(text, values)) for key, text in spec.config.fields.items()}
    given = {**fields, **{key: value for key, value in launch.overrides.items() if key not in plan}}
    base = _base(spec, Path(launch.project))
    if spec.config.overrides == "file":
        _write_config(Path(values["config_file"]), _merged(base, given))
    return Invocation(
        arguments=_arguments(spec, values, given, checkpoint),
        folder=Path(launch.project) / spec.folder,
        environment=_environment(spec, values, given, environment),
        declared={**flat(base), **given, "seed": seed, "steps": plan["steps"]},
        seed=seed,
        steps=steps,
    )


def facts_of(invoked: Invocation) -> dict[str, Scalar]:
    """Versions of the command's own Python and of the packages that decide numbers; {} for other programs."""
    program = invoked.arguments[0]
    if not Path(program).name.startswith("python"):
        return {}
    try:
        done = subprocess.run(
            [program, "-c", _FACTS % (_PACKAGES,)],
            env={name: value for name, value in invoked.environment.items() if name != "PYTHONPATH"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FACTS_WAIT_S,
            check=True,
        )
        facts: dict[str, Scalar] = json.loads(done.stdout)
        return facts
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}  # what is wrong with it shows when the training starts


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    """Leaves by dotted key; lists as JSON text."""
    leaves: dict[str, Scalar] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            is_scalar = isinstance(value, str | int | float | bool | None)
            leaves[f"{prefix}{key}"] = value if is_scalar else json.dumps(value, default=str)
    return leaves


def _values(spec: BackendSpec, launch: Launch, attempt: Path) -> dict[str, str]:
    suffix = Path(spec.config.base).suffix or ".json"
    return {
        "project": launch.project,
        "output_dir": str(attempt / "output"),
        "config_file": str(attempt / f"config{suffix}"),
        "run_id": launch.run_id,
    }


def _arguments(
    spec: BackendSpec, values: Mapping[str, str], given: Mapping[str, Scalar], checkpoint: str
) -> tuple[str, ...]:
    lists: dict[str, list[str]] = {"{overrides}": [], "{resume}": []}
    if spec.config.overrides == "arguments":
        lists["{overrides}"] = [
            filled(spec.config.argument, {"key": key, "value": _text(value)}) for key, value in given.items()
        ]
    if checkpoint:
        lists["{resume}"] = [filled(text, {"checkpoint": checkpoint}) for text in spec.resume]
    rest = [word for part in spec.command[1:] for word in lists.get(part, [filled(part, values)])]
    return (_program(spec.command[0]), *rest)


def _program(name: str) -> str:
    found = shutil.which(os.path.expanduser(name))
    if found is None:
        raise ConfigError(
            f"the command '{name}' was not found",
            remedy="write its whole path: the training runs in a checkout of its own, without what git ignores",
        )
    return found


def _environment(
    spec: BackendSpec, values: Mapping[str, str], given: Mapping[str, Scalar], environment: Mapping[str, str]
) -> dict[str, str]:
    found = dict(environment) | {name: filled(text, values) for name, text in spec.environment.items()}
    if spec.config.overrides == "environment":
        for key, value in given.items():
            found[spec.config.prefix + re.sub(r"\W", "_", key).upper()] = _text(value)
    return found


def _base(spec: BackendSpec, project: Path) -> dict[str, Any]:
    """The project's own config file as a tree; {} when the spec names none."""
    if not spec.config.base:
        return {}
    path = project / spec.config.base
    try:
        tree = _parse(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"config.base {path}: {error}", remedy="correct that file or the backend's spec") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"config.base {path} holds no fields", remedy="name a file with named fields")
    return tree


def _parse(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".toml":
        return tomllib.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _merged(tree: Mapping[str, Any], given: Mapping[str, Scalar]) -> dict[str, Any]:
    """`tree` with the dotted keys of `given` put in. ConfigError where a key runs through a value."""
    merged: dict[str, Any] = json.loads(json.dumps(tree, default=str))
    for key, value in given.items():
        *folders, leaf = key.split(".")
        node = merged
        for part in folders:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ConfigError(
                    f"{key}: {part} is a value, not a section", remedy="name a field of the project's config"
                )
        node[leaf] = value
    return merged


def _write_config(path: Path, tree: Mapping[str, Any]) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(tree, indent=2))
        return
    import yaml

    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def _whole(key: str, value: Scalar) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{key}={value}: not a whole number", remedy=f"give {key} a whole number")
    return value


def _typed(text: str) -> Scalar:
    try:
        value: Scalar = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool | None) else text


def _text(value: Scalar) -> str:
    """As programs write it on a command line: true, false, null, numbers in full."""
    return value if isinstance(value, str) else json.dumps(value)
