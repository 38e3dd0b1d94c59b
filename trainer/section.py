"""Base of every configuration section: frozen, closed, and addressable by dotted keys."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.errors import ConfigError
from contracts.events import Scalar

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A frozen pydantic model whose fields are scalars or further sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def flat(self) -> dict[str, Scalar]:
        """Every leaf as `dotted.key -> scalar`, in field order: the diffable form of a resolved config."""
        return dict(_leaves("", self))

    def with_overrides(self, overrides: Mapping[str, Scalar]) -> Self:
        """A copy with the given leaves replaced.

        Raises ConfigError naming the field when a key is no leaf (with close matches) or a value does not fit.
        """
        known = self.flat()
        tree: dict[str, Any] = self.model_dump()
        for key, value in overrides.items():
            if key not in known:
                raise _unknown(key, known)
            node = tree
            *path, leaf = key.split(".")
            for part in path:
                node = node[part]
            node[leaf] = value
        return type(self).checked(tree)

    @classmethod
    def checked(cls, tree: Mapping[str, Any]) -> Self:
        """Validate a nested mapping. Raises ConfigError naming the first field that is wrong."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise config_error(error, known=cls().flat()) from error


def config_error(error: ValidationError, *, known: Mapping[str, Scalar]) -> ConfigError:
    """The same fault as a ConfigError that names the dotted field."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return _unknown(key, known)
    if first["type"] == "value_error":  # of a validator over several fields; its text names them
        return ConfigError(str(first["ctx"]["error"]), remedy="change one of the fields named here")
    return ConfigError(
        f"config field '{key}': {first['msg']} (given: {first['input']!r})",
        remedy=f"give '{key}' a value it accepts",
    )


def _unknown(key: str, known: Mapping[str, Scalar]) -> ConfigError:
    below = [name for name in known if name.startswith(key + ".")]
    if below:
        return ConfigError(
            f"config key '{key}' is a section, not a field",
            remedy="name one of its fields: " + ", ".join(below[:8]),
        )
    close = difflib.get_close_matches(key, known, n=3, cutoff=0.6) or [
        name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]
    ]
    hint = "did you mean " + " or ".join(close[:3]) + "?" if close else "see TrainConfig in trainer/config.py"
    return ConfigError(f"unknown config field '{key}'", remedy=hint)


def _leaves(prefix: str, section: Section) -> Iterator[tuple[str, Scalar]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value
