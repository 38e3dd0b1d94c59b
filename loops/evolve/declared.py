"""What a scaffold says of itself: which of its files and settings may be changed. `scaffold.toml` in its folder:

    editable = ["agent.py", "prompts/*.md"]   # files that a diff may touch beside the settings; `*` stays in a folder
    settings = "params.json"                  # a JSON object of single values; this name where none is given

    [parameters.temperature]
    values = [0.1, 0.4, 0.8]                  # choices, or for numbers: low, high and step
    bears_on = ["repeats"]                    # causes of failures (failures.py) that make its moves likelier

    [mechanisms]
    steps = ["retry", "check"]                # `steps` of the settings is a list: each of these may be in it or not

Without this file a scaffold is one of our format: its surface is `surface.EDITABLE`, its moves are those of the
operators' catalogue. The file itself is outside every surface.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from contracts.errors import UserInputError
from loops.evolve.failures import CAUSES
from loops.evolve.surface import Files, Surface, type_of

NAME = "scaffold.toml"
_MOST_VALUES = 64
_OURS = ("mechanisms", "tools", "skills")
Value = bool | int | float | str


class Parameter(BaseModel):
    """`values`: choices; or numbers from `low` to `high` in steps, whole ones where all three are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: tuple[Value, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    bears_on: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ends = (self.low, self.high, self.step)
        if bool(self.values) == (ends != (None, None, None)):
            raise ValueError("give `values`, or `low`, `high` and `step`")
        if not self.values:
            if self.low is None or self.high is None or self.step is None:
                raise ValueError("a range has `low`, `high` and `step`")
            if not (all(map(math.isfinite, (self.low, self.high, self.step))) and self.low < self.high):
                raise ValueError("`low` must be below `high`, and both finite")
            if self.step <= 0:
                raise ValueError("`step` must be above 0")
        if (count := self._count()) > _MOST_VALUES:
            raise ValueError(f"{count} values are more than {_MOST_VALUES}: take a larger `step`")
        if unknown := sorted(set(self.bears_on) - set(CAUSES)):
            raise ValueError(f"no cause of failures is called {unknown[0]}; one of: {', '.join(CAUSES)}")
        return self

    def _count(self) -> int:
        if self.low is None or self.high is None or self.step is None:
            return len(self.values)
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def choices(self) -> tuple[Value, ...]:
        """All values that a move may set, in order."""
        if self.low is None or self.step is None:
            return self.values
        return tuple(round(self.low + number * self.step, 10) for number in range(self._count()))

    def allows(self, value: Any) -> bool:
        """Between the ends of a range also what no step reaches."""
        if self.low is None or self.high is None:
            return any(value == each and type_of(value) == type_of(each) for each in self.values)
        return type_of(value) == type_of(self.low) and self.low <= value <= self.high


class Declared(BaseModel):
    """scaffold.toml"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    editable: tuple[str, ...] = ()
    settings: str = "params.json"
    parameters: Mapping[str, Parameter] = Field(default_factory=dict)
    mechanisms: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_change(self) -> Self:
        if not (self.editable or self.parameters or self.mechanisms):
            raise ValueError("it declares nothing that may be changed")
        for pattern in (*self.editable, self.settings):
            if pattern.startswith("/") or any(part in ("", ".", "..") for part in pattern.split("/")):
                raise ValueError(f"'{pattern}' is no place inside the folder")
        if not self.settings.endswith(".json"):
            raise ValueError("`settings` must be a .json file")
        return self

    def options(self, files: Files) -> list[tuple[str, str, str]]:
        """(kind, what, after) of every single change from where `files` stand."""
        params = json.loads(files[self.settings]) if self.parameters or self.mechanisms else {}
        found = [
            ("set", name, json.dumps(value))
            for name, parameter in self.parameters.items()
            for value in parameter.choices
            if params[name] != value or type_of(params[name]) != type_of(value)
        ]
        for key, names in self.mechanisms.items():
            found += [("remove" if name in params[key] else "add", f"{key} {name}", "") for name in names]
        return found

    def changed(self, files: Files, kind: str, what: str, after: str) -> dict[str, str]:
        """The files after one of `options`. Mechanisms stand in the order in which they are declared."""
        params = json.loads(files[self.settings])
        if kind == "set":
            params[what] = json.loads(after)
        else:
            key, _, name = what.partition(" ")
            on = {*params[key], name} if kind == "add" else {*params[key]} - {name}
            params[key] = [*(each for each in params[key] if each not in self.mechanisms[key] and each in on)]
            params[key] += [each for each in self.mechanisms[key] if each in on]
        return {**files, self.settings: json.dumps(params, indent=2) + "\n"}

    def refuses(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
        """Why settings that differ from those before are none that were declared; "" where they are."""
        for name, value in after.items():
            if name in before and value == before[name]:
                continue
            if name in self.parameters and not self.parameters[name].allows(value):
                return f"{name} may not be {json.dumps(value)}"
            if unknown := [each for each in value if each not in self.mechanisms[name]] if self._lists(name) else []:
                return f"{name} may not hold {unknown[0]}"
            if name not in self.parameters and not self._lists(name):
                return f"{name} is no declared setting"
        return ""

    def _lists(self, name: str) -> bool:
        return name in self.mechanisms

    @property
    def bears_on(self) -> Mapping[str, tuple[str, ...]]:
        """Parameters by the cause that they bear on."""
        return {
            cause: tuple(name for name, each in self.parameters.items() if cause in each.bears_on) for cause in CAUSES
        }


def declared(files: Files) -> Declared | None:
    """What the scaffold declares, checked against its settings; None for one of our format.

    Raises UserInputError that names the place in scaffold.toml.
    """
    if NAME not in files:
        return None
    found = _parsed(files[NAME])
    if found.parameters or found.mechanisms:
        _check(found, files)
    return found


@lru_cache(maxsize=16)  # asked for at every draw of a move
def _parsed(text: str) -> Declared:
    try:
        return Declared.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _bad(str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _bad(f"{where}: {first['msg']}" if where else first["msg"]) from error


def _check(found: Declared, files: Files) -> None:
    """Every parameter and mechanism stands in the settings, with values of one kind."""
    try:
        params = json.loads(files[found.settings])
    except (KeyError, ValueError) as error:
        raise _bad(f"settings: there is no JSON object in {found.settings}") from error
    for name in (*found.parameters, *found.mechanisms):
        if not isinstance(params, dict) or name not in params:
            raise _bad(f"{name} does not stand in {found.settings}")
    for name, parameter in found.parameters.items():
        for value in parameter.choices:
            if type_of(value) != type_of(params[name]):
                raise _bad(f"parameters.{name}: {json.dumps(value)} is not {type_of(params[name])}")
    for key, names in found.mechanisms.items():
        if type_of(params[key]) != type_of([]):
            raise _bad(f"mechanisms.{key}: it must be {type_of([])} in {found.settings}")
        if len(set(names)) < len(names) or not all(name and " " not in name for name in names):
            raise _bad(f"mechanisms.{key}: names must be single words, each once")


def _bad(reason: str) -> UserInputError:
    return UserInputError(f"{NAME}: {reason}", remedy="loops/evolve/declared.py shows a whole one")


def surface_of(files: Files) -> Surface:
    """Of a scaffold as a run begins with it. Raises UserInputError where nothing says what may be changed."""
    own = declared(files)
    if own is None:
        _check_ours(files)
        return Surface()
    plain = Surface()
    return Surface(
        editable=(*own.editable, own.settings),
        fixed=(NAME,),
        settings=own.settings,
        refuses=own.refuses,
        max_lines=plain.max_lines + sum(text.count("\n") for text in files.values()),
        max_bytes=plain.max_bytes + sum(len(text.encode()) for text in files.values()),
    )


def _check_ours(files: Files) -> None:
    try:
        params = json.loads(files["params.json"])
        fits = all(type_of(params[name]) == type_of([]) for name in _OURS)
    except (KeyError, ValueError, TypeError):
        fits = False
    if not fits:
        raise UserInputError(
            f"nothing says what may be changed: there is no {NAME}, and no params.json with {', '.join(_OURS)}",
            remedy=f"declare it in {NAME} (loops/evolve/declared.py shows a whole one)",
        )
