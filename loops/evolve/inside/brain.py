"""The scripted brain: chooses the next action from what a view shows, and from nothing else.

It stands where a language model would: no memory between asks, a bounded view, chance that a seed and the number of
the ask determine, errors when it sees too little. So what a scaffold lets it see, remember, retry and verify decides
what it can do, while what it can think of at all (mutations of lines, shell templates offered as skills, settings of
small learners) stays the same. It reads these lines; anything else in a view only takes room:

    TASK kind / the task's words          == path / 12| text     the file, from read_file
    EDIT path:12 -> text                  TESTS passed=3 failed=2     SUSPECT path:12 0.83     UNDONE
    RAN exit=0 command                    SKILL words | template      FIT model=knn setting=5 scale=1 cv=0.91
    AVOID text                            LEFT 7

Prompts beyond skills do nothing for it; they are there for real models.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loops.evolve.inside.mutations import edits, names_of

Action = dict[str, Any]
_SOURCE = re.compile(r"^== (\S+)$")
_NUMBERED = re.compile(r"^ *(\d+)\| ?(.*)$")
_EDIT = re.compile(r"^EDIT (\S+):(\d+) -> (.*)$")
_TESTS = re.compile(r"^TESTS passed=(\d+) failed=(\d+)")
_SUSPECT = re.compile(r"^SUSPECT (\S+):(\d+) ([\d.]+)")
_FIT = re.compile(r"^FIT (model=\S+ setting=\S+ scale=\d) cv=(\S+)")
_RAN = re.compile(r"^RAN exit=(-?\d+) (.*)$")
_SKILL = re.compile(r"^SKILL (.*?) \| (.*)$")
_SLOT = re.compile(r"\{(\w+)\}")
SETTINGS: Mapping[str, Sequence[str]] = {
    "centroid": ("0",), "knn": ("1", "3", "5", "9", "15", "25"), "ridge": ("0.01", "1", "100"),
    "tree": ("2", "4", "6"), "bayes": ("0",),
}  # fmt: skip


class Sight:
    """What a view says, read line by line; later lines win."""

    def __init__(self, view: Sequence[Mapping[str, str]]) -> None:
        self.lines = [line for message in view for line in str(message.get("text", "")).split("\n")]
        self.source: dict[str, dict[int, str]] = {}
        self.tests: list[tuple[int, int]] = []  # (passed, failed), in order
        self.tried: set[str] = set()
        self.suspects: dict[tuple[str, int], float] = {}
        self.fits: dict[str, float] = {}
        self.ran: list[tuple[int, str]] = []
        self.skills: list[tuple[str, str]] = []
        self.last = ""  # the kind of the newest line that is something that happened
        self.left = 99
        self.better = False  # the newest tests failed less often than those before them, as far as can be seen
        self._read()

    def _read(self) -> None:
        path = ""
        for line in self.lines:
            if match := _SOURCE.match(line):
                path, self.source[match[1]] = match[1], {}
            elif (match := _NUMBERED.match(line)) and path:
                self.source[path][int(match[1])] = match[2]
            elif match := _EDIT.match(line):
                self.tried.add(f"{match[1]}:{match[2]} -> {match[3].strip()}")
                self.last = "edit"
            elif match := _TESTS.match(line):
                failed = int(match[2])
                self.better = not self.tests or failed < self.tests[-1][1]
                self.tests.append((int(match[1]), failed))
                self.last = "tests after edit" if self.last == "edit" else "tests"
            elif match := _SUSPECT.match(line):
                self.suspects[match[1], int(match[2])] = float(match[3])
            else:
                self._read_rest(line)

    def _read_rest(self, line: str) -> None:
        if line == "UNDONE":
            self.last = "undone"
        elif match := _FIT.match(line):
            self.fits.pop(match[1], None)  # the newest comes last
            self.fits[match[1]] = float(match[2])
        elif match := _RAN.match(line):
            self.ran.append((int(match[1]), match[2]))
            self.last = "ran"
        elif line.startswith("AVOID "):
            self.tried.add(line.removeprefix("AVOID ").strip())
        elif match := _SKILL.match(line):
            self.skills.append((match[1], match[2]))
        elif line.startswith("LEFT ") and line[5:].isdigit():
            self.left = int(line[5:])

    def words(self) -> str:
        """The task's own words: what follows the line TASK, up to an empty line."""
        text = "\n".join(self.lines)
        _, _, after = text.partition("TASK ")
        return after.partition("\n\n")[0]


def answer(view: Sequence[Mapping[str, str]], tools: Sequence[str], temperature: float, seed: str) -> Action:
    """The next action, {"tool": name, "args": {...}}; only tools that are offered."""
    sight = Sight(view)
    words = sight.words()
    chance = random.Random(seed)
    kind = words.split("\n", 1)[0].strip()
    choose = {"bugfix": _repair, "terminal": _command, "ml": _fit}.get(kind)
    actions = choose(sight, words, temperature, chance) if choose else iter([_act("list_files")])
    return next((action for action in actions if action["tool"] in tools), _act("submit"))


def _act(tool: str, **args: Any) -> Action:
    return {"tool": tool, "args": args}


def _drawn(chance: random.Random, weights: Mapping[Any, float], temperature: float) -> Any:
    """One key, by weight ** (1 / temperature)."""
    keys = list(weights)
    top = max(weights.values())
    powers = [math.exp(math.log(max(weights[key], 1e-9) / top) / temperature) for key in keys]
    return chance.choices(keys, powers)[0]


def _repair(sight: Sight, words: str, temperature: float, chance: random.Random) -> Iterator[Action]:
    """What it would like to do, best first."""
    path = next(iter(re.findall(r"\b[\w/]+\.py\b", words)), "")
    if path not in sight.source:
        yield _act("read_file", path=path)
        return
    if not sight.tests or sight.last == "edit":
        yield _act("run_tests")
    elif sight.tests[-1][1] == 0:
        yield _act("submit")
    elif sight.last == "tests after edit" and not sight.better:
        yield _act("undo")
    if not sight.suspects and f"localise {path}" not in sight.tried and chance.random() < 0.3:
        yield _act("localise", path=path)
    options = _edits_of(sight, path)
    if options:
        line, text = _drawn(chance, options, temperature)
        yield _act("edit", path=path, line=line, text=text)


def _edits_of(sight: Sight, path: str) -> dict[tuple[int, str], float]:
    lines = sight.source[path]
    names = names_of(list(lines.values()))
    options = {}
    for number, line in lines.items():
        suspicion = sight.suspects.get((path, number), 0.02 if sight.suspects else 0.3)
        for new, weight in edits(line, names).items():
            if f"{path}:{number} -> {new.strip()}" not in sight.tried:
                options[number, new] = weight * (suspicion + 0.01)
    return options


def _command(sight: Sight, words: str, temperature: float, chance: random.Random) -> Iterator[Action]:
    if sight.tests and sight.tests[-1][1] == 0 and sight.last != "ran":
        yield _act("submit")
    if sight.ran and sight.ran[-1][0] == 0 and sight.last == "ran":
        yield _act("run_tests")
    tried = {command for _, command in sight.ran} | sight.tried
    options = {}
    for description, template in sight.skills:
        fit = _likeness(description, words)
        for command in _filled(template, words):
            if command not in tried:
                options[command] = fit
    if options:
        yield _act("shell", command=_drawn(chance, options, temperature))


def _likeness(description: str, words: str) -> float:
    """How many of the description's words the task uses, as a weight."""
    ours = set(re.findall(r"[a-z]+", description.lower()))
    theirs = set(re.findall(r"[a-z]+", words.lower()))
    return 0.02 + (len(ours & theirs) / max(1, len(ours))) ** 2


def _filled(template: str, words: str) -> list[str]:
    """The template with its slots filled from the task's words, in the few ways that fit."""
    paths = list(dict.fromkeys(re.findall(r"\b[\w-]+(?:/[\w.-]+)*\.\w+\b", words)))
    quoted = re.findall(r"'([^']+)'", words)
    numbers = re.findall(r"(?<![\w./])\d+(?![\w./])", words)
    slots = {"file": paths[:-1] or paths, "out": paths[-1:], "word": quoted, "number": numbers}
    found = [template]
    for slot in dict.fromkeys(_SLOT.findall(template)):
        found = [each.replace(f"{{{slot}}}", value) for each in found for value in slots.get(slot, [])]
    return found[:12]


def _fit(sight: Sight, words: str, temperature: float, chance: random.Random) -> Iterator[Action]:
    best = max(sight.fits, key=lambda key: sight.fits[key], default="")
    untried = [
        f"model={model} setting={setting} scale={scale}"
        for model, settings in SETTINGS.items()
        for setting in settings
        for scale in (0, 1)
        if f"model={model} setting={setting} scale={scale}" not in sight.fits
    ]
    if best and (sight.left <= 2 or not untried or len(sight.fits) >= 14):
        newest = list(sight.fits)[-1]
        yield _act("submit") if newest == best else _act("fit", **_parsed(best))
        return
    near = {key: 1.0 + 2.0 * (bool(best) and key.split()[0] == best.split()[0]) for key in untried}
    yield _act("fit", **_parsed(_drawn(chance, near, max(temperature, 0.3))))


def _parsed(key: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in key.split())
