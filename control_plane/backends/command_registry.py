"""The specs that were added, and how a launch names one.

`LATHE_HOME/backends/NAME.toml` is the present spec; `NAME@HASH.toml` are all it ever was, so that a recorded run is
run again with the very spec it was made with. A launch names `command:NAME@HASH` in `entry`, never a path: nobody who
may ask for a run can bring a command along.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from contracts.backend import Launch
from contracts.errors import ConfigError, NotFound
from control_plane.backends.command_spec import BackendSpec, parse_spec
from control_plane.disk import explained

FOLDER = "backends"  # beside the folder of runs
_ENTRY = re.compile(r"^command:(?P<version>(?P<name>[a-z0-9-]+)@(?P<digest>[0-9a-f]{12}))$")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One version of a spec."""

    spec: BackendSpec
    text: str

    @property
    def version(self) -> str:
        return f"{self.spec.name}@{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"

    @property
    def entry(self) -> str:
        """What a project and its launches carry in their `entry`."""
        return f"command:{self.version}"


class Registry:
    """Specs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: Path) -> Registered:
        """A spec that a person wrote. Raises ConfigError."""
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}", remedy="give the path of a TOML file") from error
        return Registered(spec=parse_spec(text, path), text=text)

    def keep(self, registered: Registered) -> None:
        """Make this version runnable; the present one stays what it is."""
        with explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._folder / f"{registered.version}.toml", registered.text)

    def make_present(self, registered: Registered) -> None:
        """From now on the name means this version."""
        self.keep(registered)
        with explained(self._folder):
            _write(self._folder / f"{registered.spec.name}.toml", registered.text)

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(path.stem for path in self._folder.glob("*.toml") if "@" not in path.stem)

    def get(self, name: str) -> Registered:
        """Raises NotFound."""
        if name not in self.names():
            known = ", ".join(self.names()) or "none"
            raise NotFound(f"no backend '{name}'", remedy=f"known: {known}; add one with: lathe backend add FILE")
        return self.read(self._folder / f"{name}.toml")

    def remove(self, name: str) -> None:
        """Forget the name; its versions stay for the runs that were made with them. Raises NotFound."""
        self.get(name)
        (self._folder / f"{name}.toml").unlink()


def is_command(entry: str) -> bool:
    """True when a launch with this entry is run by a spec."""
    return entry.startswith("command:")


def spec_of(launch: Launch) -> BackendSpec:
    """The spec that the launch names, from the folder beside that of the runs. ConfigError when it is not there."""
    match = _ENTRY.match(launch.entry)
    if match is None:
        raise ConfigError(
            f"'{launch.entry}' names no backend", remedy="connect the project: lathe backend add FILE --project FOLDER"
        )
    path = launch.folder.parent.parent / FOLDER / f"{match['version']}.toml"
    if not path.is_file():
        raise ConfigError(f"the backend {match['version']} is gone: no {path}", remedy="restore that file")
    text = path.read_text()
    if Registered(spec=parse_spec(text, path), text=text).version != match["version"]:
        raise ConfigError(f"{path} was changed", remedy="restore it, or add the changed one: lathe backend add FILE")
    return parse_spec(text, path)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)
