"""An approved change of one configuration file of a project (JSON, YAML or TOML), on a branch as with code."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from context_store import diff_config
from context_store.importers.configs import flat
from contracts.enums import EffectKind
from contracts.errors import ConfigError, RepositoryError, UserInputError
from contracts.events import Scalar
from control_plane.effects.patch_code import PatchCode, PatchPayload
from control_plane.git import Git
from control_plane.worktrees import Tree, changed_files


class PatchConfigPayload(PatchPayload):
    """`file`: relative to the project."""

    file: str


class PatchConfig(PatchCode):
    kind = EffectKind.PATCH_CONFIG
    payload_model = PatchConfigPayload

    def inspect(self, payload: PatchPayload, tree: Tree) -> dict[str, object]:
        """The fields that change, as {key: [before, after]}.

        UserInputError when another file changes too, ConfigError when the file cannot be read before or afterwards.
        """
        assert isinstance(payload, PatchConfigPayload)
        changed = changed_files(self._project(payload), tree)
        if changed != (payload.file,):
            raise UserInputError(
                f"the diff changes {', '.join(changed)}, not just {payload.file}",
                remedy="name the one configuration file that changes, or propose a patch_code",
            )
        git = Git(self._project(payload))
        before, after = (_read(git, commit, payload.file) for commit in (tree.base, tree.commit))
        changes = diff_config(before, after)
        if not changes:
            raise UserInputError(f"no field of {payload.file} changes", remedy="change a value")
        return {"file": payload.file, "changes": {each.key: [each.before, each.after] for each in changes}}


def _read(git: Git, commit: str, file: str) -> dict[str, Scalar]:
    """Flat, with dotted keys."""
    done = git.attempt("show", f"{commit}:./{file}")
    if done.returncode != 0:
        raise RepositoryError(
            f"commit {commit[:12]} has no file {file}", remedy="name a file that exists before and after"
        )
    try:
        found = _parse(file, done.stdout)
    except ValueError as error:
        said = " ".join(str(error).split())
        raise ConfigError(
            f"{file} in {commit[:12]} is no configuration: {said}", remedy="correct its syntax"
        ) from error
    return flat(found)


def _parse(file: str, text: str) -> dict[Any, Any]:
    """Raises ValueError."""
    suffix = file.rpartition(".")[2]
    if suffix == "toml":
        return tomllib.loads(text)
    if suffix == "json":
        found = json.loads(text)
    elif suffix in ("yaml", "yml"):
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    else:
        raise ValueError("only .json, .yaml, .yml and .toml are read")
    if not isinstance(found, dict):
        raise ValueError("no mapping")
    return found
