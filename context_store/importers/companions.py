"""Files that describe a log without being one: a configuration that lies beside it under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from context_store.importers.configs import flat, read_mapping
from context_store.importers.formats import listing
from context_store.importers.items import Problem
from contracts.events import Scalar

_SUFFIXES = (".yaml", ".yml", ".json")
_ABOUT_THE_LOG = ("source", "log", "log_dialect", "run", "changed", "changed_vs", "changed_environment", "licence")


@dataclass(frozen=True, kw_only=True)
class Description:
    """`about`: what the file says of the log itself or of other runs; nothing that this run was configured with."""

    config: Mapping[str, Scalar] = field(default_factory=dict)
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    about: Mapping[str, Scalar] = field(default_factory=dict)
    problems: Sequence[Problem] = ()


def beside(log: Path) -> tuple[Path, ...]:
    """The configuration under the log's name or its beginning: `a.config.yaml` or `a.yaml` of `a_golden.json`."""
    stem = log.name.partition(".")[0] if log.name.count(".") > 1 else log.stem
    found = []
    for path in listing(log.parent):
        if path.suffix not in _SUFFIXES or path == log or not path.is_file():
            continue
        name = path.stem.removesuffix(".config").removesuffix(".args")
        rest = log.stem[len(name) :]
        begins = log.stem.startswith(name) and (not rest or rest[0] in "._-") and path.stem != log.stem
        if name and (begins or name in (log.stem, stem)):
            found.append((len(name), path))
    return (max(found)[1],) if found else ()


def describe(files: Sequence[Path]) -> Description:
    """What the companions say. Sections `config` and `environment` where a file has them, else all is configuration."""
    config: dict[str, Scalar] = {}
    environment: dict[str, Scalar] = {}
    about: dict[str, Scalar] = {}
    problems: list[Problem] = []
    for path in files:
        try:
            content = read_mapping(path)
        except (OSError, ValueError) as error:
            problems.append(Problem(file=str(path), position="the file", what=f"no configuration: {error}"))
            continue
        about |= flat({key: value for key, value in content.items() if key in _ABOUT_THE_LOG})
        environment |= flat(_section(content, "environment"))
        rest = {key: value for key, value in content.items() if key not in (*_ABOUT_THE_LOG, "environment", "config")}
        config |= flat(_section(content, "config")) | flat(rest)
    return Description(config=config, environment=environment, about=about, problems=problems)


def _section(content: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = content.get(name)
    return section if isinstance(section, Mapping) else {}
