"""What stands in a log besides its steps: environment, command line, configuration, commit, source, restarts."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from context_store.importers.configs import arguments, parsed
from contracts.events import Scalar

_MAX_SOURCE_CHARACTERS = 4_000_000
_RULE = re.compile(r"^={60,}$")
_TORCH = re.compile(r"Running [Pp]y[Tt]orch (\S+)(?: compiled for CUDA (\S+))?(?: on (.+?) with world_size (\d+))?$")
_DRIVER = re.compile(r"Driver Version: (\S+)\s+CUDA Version: (\S+)")
_GPU = re.compile(r"^\|\s+\d+\s+((?:NVIDIA|AMD|Tesla|Quadro) [\w -]+?)\s{2,}")
_COMMIT = re.compile(
    r"\b(?:git[ _-]?)?(?:commit|hash|sha|revision)(?:[ _-]?(?:hash|id|sha))?\b['\"]?\s*[:=]\s*['\"]?([0-9a-f]{7,40})\b",
    re.I,
)
_COMMAND = re.compile(
    r"(?:^|\+ |\$ |[Cc]ommand(?: line)?: )((?:\S*/)?(?:python[\d.]*|torchrun|deepspeed|accelerate)\s+\S.*)$"
)
_MEGATRON_ARGUMENT = re.compile(r"^\s+(\w+) \.{2,} (.*)$")
_LOADED = re.compile(r"(?:loaded|loading) checkpoint from (\S+).*?(?:at iteration|step[ :])\s*(\d+)", re.I)
_RESUMED = re.compile(r"(?:^|\b)(?:resum(?:ing|ed)|restart(?:ing|ed)) (?:training )?(?:from|at) (.*)$", re.I)
_STEP = re.compile(r"(?:iter(?:ation)?|step|checkpoint)[ _:=-]*(\d+)", re.I)
_SEED = re.compile(r"\b(?:random )?seed\b\s*[:=]\s*(\d+)\b", re.I)
_HYPERPARAMETERS = re.compile(r"^class (?:Hyperparameters|Config|TrainConfig|GPTConfig)\b")
_FIELD = re.compile(r"^\s+(\w+)\s*(?::\s*[\w.\[\]| ]+?)?\s*=\s*([^#]+?)\s*(?:#.*)?$")


@dataclass
class LogFacts:
    """Fill it with the lines that are no steps. `restarted`: a process started since `settle` was called last."""

    environment: dict[str, Scalar] = field(default_factory=dict)
    config: dict[str, Scalar] = field(default_factory=dict)
    source_sha256: str = ""
    restarted: bool = False
    checkpoint: str = ""
    checkpoint_step: int | None = None
    _source: list[str] = field(default_factory=list)
    _source_size: int = 0
    _gpus: list[str] = field(default_factory=list)
    _header: bool = True

    def look(self, line: str) -> None:
        if self._header:
            self._collect_source(line)
        for pattern, take in _READERS:
            if match := pattern.search(line):
                take(self, match)
                return

    def settle(self) -> None:
        """A step was read: the header is over, and what was announced has happened."""
        self._header, self._source = False, []
        self.restarted, self.checkpoint, self.checkpoint_step = False, "", None

    @property
    def commit(self) -> str:
        return str(self.environment.get("git.commit", ""))

    @property
    def seed(self) -> int:
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else 0

    def _collect_source(self, line: str) -> None:
        """Everything before the first rule of `=` is source when it imports something."""
        if self.source_sha256 or self._source_size > _MAX_SOURCE_CHARACTERS:
            return
        if not _RULE.match(line):
            self._source.append(line)
            self._source_size += len(line) + 1
            return
        text = "\n".join(self._source)
        if re.search(r"^(?:import|from) \w+", text, re.MULTILINE):
            self.source_sha256 = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
            self.config |= _declared_in(self._source)
        self._source, self._source_size = [], _MAX_SOURCE_CHARACTERS + 1

    def _torch(self, match: re.Match[str]) -> None:
        self.environment["torch"] = match[1]
        if not self._header:
            self.restarted, self._gpus = True, []
        for key, value in (("cuda", match[2]), ("gpu", match[3]), ("world_size", match[4])):
            if value:
                self.environment[key] = int(value) if key == "world_size" else value

    def _driver(self, match: re.Match[str]) -> None:
        self.environment |= {"driver": match[1], "smi_cuda": match[2]}

    def _gpu(self, match: re.Match[str]) -> None:
        self._gpus.append(match[1])
        kinds = sorted(set(self._gpus))
        self.environment["gpus"] = ", ".join(f"{self._gpus.count(kind)} x {kind}" for kind in kinds)

    def _commit(self, match: re.Match[str]) -> None:
        self.environment["git.commit"] = match[1]

    def _command(self, match: re.Match[str]) -> None:
        try:
            words = shlex.split(match[1])
        except ValueError:
            return
        options = [index for index, word in enumerate(words) if word.startswith("--") or "=" in word]
        self.environment["program"] = " ".join(words[: options[0]] if options else words)
        self.config |= arguments(words[options[0] :]) if options else {}
        self.restarted = self.restarted or not self._header

    def _argument(self, match: re.Match[str]) -> None:
        self.config[match[1]] = parsed(match[2].strip())

    def _loaded(self, match: re.Match[str]) -> None:
        self.restarted, self.checkpoint, self.checkpoint_step = True, match[1], int(match[2])

    def _resumed(self, match: re.Match[str]) -> None:
        step = _STEP.search(match[1])
        self.restarted, self.checkpoint = True, match[1].strip()
        self.checkpoint_step = int(step[1]) if step else None

    def _take_seed(self, match: re.Match[str]) -> None:
        self.config.setdefault("seed", int(match[1]))


_READERS: tuple[tuple[re.Pattern[str], Callable[[LogFacts, re.Match[str]], None]], ...] = (
    (_TORCH, LogFacts._torch),
    (_DRIVER, LogFacts._driver),
    (_GPU, LogFacts._gpu),
    (_MEGATRON_ARGUMENT, LogFacts._argument),
    (_LOADED, LogFacts._loaded),
    (_RESUMED, LogFacts._resumed),
    (_COMMAND, LogFacts._command),
    (_COMMIT, LogFacts._commit),
    (_SEED, LogFacts._take_seed),
)


def _declared_in(source: list[str]) -> dict[str, Scalar]:
    """The literal fields of the class of hyperparameters in an embedded source."""
    found: dict[str, Scalar] = {}
    inside = False
    for line in source:
        if _HYPERPARAMETERS.match(line):
            inside = True
        elif inside and line and not line[0].isspace():
            inside = False
        elif inside and (match := _FIELD.match(line)):
            value = parsed(match[2].strip("'\""))
            if not isinstance(value, str) or match[2][0] in "'\"":
                found[match[1]] = value
    return found
