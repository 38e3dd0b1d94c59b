"""How a training that nobody here wrote is run: one TOML file, checked field by field.

    name = "tiny"
    command = ["python", "train.py", "--seed", "{seed}", "--steps", "{steps}", "--out", "{output_dir}", "{resume}"]
    steps = 300
    [log]
    file = "metrics.jsonl"
    format = "jsonl"

README.md beside this file shows a whole one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from contracts.errors import ConfigError
from contracts.events import Scalar

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_VALUES = ("project", "output_dir", "config_file", "seed", "steps", "run_id")
_LISTS = ("overrides", "resume")  # stand for any number of arguments, so they are an argument of their own
STDOUT = "stdout"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConfigSection(_Section):
    """Where the declared config fields stand (`base`, a file of the project), and how others are passed.

    `overrides`: `arguments` puts one `argument` per field where `{overrides}` stands; `file` writes base and overrides
    to `{config_file}`; `environment` sets `prefix` + the key in capitals. `fields` are set from the launch like
    overrides, for instance `{"train.seed" = "{seed}"}`, where the command has no argument for them.
    """

    base: str = ""
    overrides: Literal["arguments", "file", "environment"] = "arguments"
    argument: str = "--{key}={value}"
    prefix: str = ""
    fields: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _writable(self) -> Self:
        if self.overrides == "file" and Path(self.base or "config.json").suffix not in (".json", ".yaml", ".yml"):
            raise ValueError("overrides = 'file' needs a base that ends in .json, .yaml or .yml")
        return self


class LogSection(_Section):
    """Where the log appears and how it is read. `file` is a glob below `{output_dir}`, or `stdout`.

    `rename` maps names, as regular expressions that match all of one, to ours (`\\1` is the first group); others stay
    as they are. `ignore`: globs of names to leave out, such as clocks. `step_offset` is added to each step: 1 for
    a training that counts from 0.
    """

    file: str
    format: Literal["jsonl", "csv", "trainer_state", "regex"]
    step: str = "step"
    step_offset: int = 0
    pattern: str = ""
    rename: dict[str, str] = Field(default_factory=dict)
    ignore: tuple[str, ...] = ()

    @field_validator("rename")
    @classmethod
    def _compiles(cls, value: dict[str, str]) -> dict[str, str]:
        for pattern, name in value.items():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"'{pattern}' is no regular expression: {error}") from error
            if any(int(number) > groups for number in re.findall(r"\\(\d)", name)):
                raise ValueError(f"'{name}' names a group that '{pattern}' lacks")
        return value

    @model_validator(mode="after")
    def _has_pattern(self) -> Self:
        if (self.format == "regex") != bool(self.pattern):
            raise ValueError("pattern belongs to format = 'regex', and only to it")
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise ValueError(f"pattern is no regular expression: {error}") from error
        if self.pattern and ("step" not in groups or len(groups) < 2):
            raise ValueError("pattern needs the group (?P<step>...) and one named group per metric")
        return self


class CheckpointSection(_Section):
    """`glob` below `{output_dir}` (files or folders); the first group of `step` finds the step in the path.

    A checkpoint counts once it no longer changes and the log has reached its step. `marker`: a file inside that is
    written last.
    """

    glob: str
    step: str
    marker: str = ""

    @field_validator("step")
    @classmethod
    def _has_group(cls, value: str) -> str:
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if groups < 1:
            raise ValueError("needs a group for the number, for instance step-(\\d+)")
        return value


class ProbeSection(_Section):
    """The dry run of `lathe backend add`: this many steps, with these config fields."""

    steps: int = Field(default=20, ge=2)
    overrides: dict[str, Scalar] = Field(default_factory=dict)


class BackendSpec(_Section):
    """`seed` and `steps` hold where a launch says nothing. `resume`: arguments that stand where `{resume}` stands when
    the training goes on from `{checkpoint}`. `folder` of the project is the working directory.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    command: tuple[str, ...] = Field(min_length=1)
    folder: str = "."
    steps: int = Field(ge=1)
    seed: int = 0
    resume: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    stop_signal: Literal["SIGTERM", "SIGINT"] = "SIGTERM"
    config: ConfigSection = ConfigSection()
    log: LogSection
    checkpoints: CheckpointSection | None = None
    probe: ProbeSection = ProbeSection()

    @field_validator("name")
    @classmethod
    def _not_ours(cls, value: str) -> str:
        if value == "embedded":
            raise ValueError("'embedded' is the trainer of Lathe itself")
        return value

    @model_validator(mode="after")
    def _placeholders(self) -> Self:
        for part in self.command[1:]:
            whole = part[1:-1] in _LISTS and part == f"{{{part[1:-1]}}}"
            _require_known(part, _LISTS if whole else _VALUES, "command")
        _require_known(self.command[0], (), "command")
        _require_known(self.config.argument, ("key", "value"), "config.argument")
        for where, texts, known in (
            ("environment", self.environment.values(), _VALUES),
            ("config.fields", self.config.fields.values(), _VALUES),
            ("resume", self.resume, ("checkpoint",)),
        ):
            for text in texts:
                _require_known(text, known, where)
        self._require_used()
        return self

    def _require_used(self) -> None:
        texts = " ".join((*self.command, *self.config.fields.values(), *self.environment.values()))
        needed = {"steps": "how far to train", "output_dir": "where to write"}
        if self.config.overrides == "file":
            needed["config_file"] = "which config to read"
        elif self.config.overrides == "arguments" and self.config.fields:
            needed["overrides"] = "the config.fields"
        if self.resume:
            needed["resume"] = "where it goes on"
        for name, what in needed.items():
            if f"{{{name}}}" not in texts:
                raise ValueError(f"the command is not told {what}: write {{{name}}} into it")
        if bool(self.resume) != bool(self.checkpoints):
            raise ValueError("resume and checkpoints belong together: a training goes on from a checkpoint")


def _require_known(text: str, known: tuple[str, ...], where: str) -> None:
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            choice = ", ".join(f"{{{each}}}" for each in known) or "none"
            raise ValueError(f"{where}: {{{name}}} cannot stand in '{text}' (known there: {choice})")


def parse_spec(text: str, where: Path) -> BackendSpec:
    """The checked spec. ConfigError names the file and the field."""
    try:
        return BackendSpec.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}", remedy="correct the TOML syntax there") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"{where}: {field + ': ' if field else ''}{said}", remedy="correct that field and add the backend again"
        ) from error


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders replaced; every name in it is known."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
