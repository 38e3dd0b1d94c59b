"""Small changes of one line of Python: what the scripted brain can think of when it repairs code.

The usual operators of mutation testing, read backwards: comparison, arithmetic, boundary, logic, constants, names,
arguments, indentation. The brain knows no task; it only knows these.
"""

from __future__ import annotations

import keyword
import re

_SWAPS: dict[str, tuple[str, ...]] = {
    "<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("+", "**"), "//": ("/", "%"), "/": ("//",), "%": ("//",),
    "+=": ("-=",), "-=": ("+=",),
}  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    "and": ("or",), "or": ("and",), "True": ("False",), "False": ("True",), "min": ("max",), "max": ("min",),
    "append": ("extend",), "extend": ("append",), "lower": ("upper",), "upper": ("lower",), "any": ("all",),
    "all": ("any",),
    "startswith": ("endswith",), "endswith": ("startswith",), "break": ("continue",), "continue": ("break",),
    "strip": ("lstrip", "rstrip"), "lstrip": ("strip",), "rstrip": ("strip",), "keys": ("values",), "values": ("keys",),
    "find": ("rfind",), "rfind": ("find",), "add": ("discard",), "if": ("if not",), "while": ("while not",),
}  # fmt: skip
_OPERATOR = re.compile(r"(?<![<>=!+\-*/%])(<=|>=|==|!=|\+=|-=|//|<|>|\+|-|\*|/|%)(?![=<>*/])")
_WORD = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_ARGUMENTS = re.compile(r"\(([\w.\[\]]+), ([\w.\[\]]+)\)")
_SUM = re.compile(r"([\w.]+(?:\([^()]*\))?) \+ ([\w.]+(?:\([^()]*\))?)")
_ASSIGNMENT = re.compile(r"(?<=\w) = ")
_BOUND = re.compile(r"(?<=[\w\])])(?=[)\]:])")
_KEYWORDS = {
    *keyword.kwlist, "len", "range", "sorted", "sum", "min", "max", "abs", "list", "dict", "set", "str", "int",
    "float", "print",
}  # fmt: skip


def edits(line: str, names: frozenset[str]) -> dict[str, float]:
    """New lines and how plausible each is by itself; `names` are those used elsewhere in the file."""
    body = line.strip()
    if not body or body.startswith(("#", "def ", "import ", "from ", "class ", '"', "'", "@")):
        return {}
    found: dict[str, float] = {}
    for weight, new in [*_replacements(line), *_shapes(line), *_renamings(line, names)]:
        if new != line and new.strip():
            found[new] = max(found.get(new, 0.0), weight)
    return found


def names_of(lines: list[str]) -> frozenset[str]:
    """Identifiers of a file that are no keywords."""
    return frozenset(name for line in lines for name in _WORD.findall(_code(line))) - _KEYWORDS


def _code(line: str) -> str:
    return re.sub(r"\"[^\"]*\"|'[^']*'", "''", line.split("#")[0])


def _replacements(line: str) -> list[tuple[float, str]]:
    found = []
    for match in _OPERATOR.finditer(line):
        found += [(1.0, _put(line, match, new)) for new in _SWAPS.get(match.group(1), ())]
    for match in _WORD.finditer(line):
        found += [(0.8, _put(line, match, new)) for new in _WORDS.get(match.group(), ())]
    for match in _INTEGER.finditer(line):
        value = int(match.group())
        found += [(0.9, _put(line, match, str(new))) for new in (value + 1, value - 1)]
        found += [(0.3, _put(line, match, "0"))] if value else []
    return found


def _shapes(line: str) -> list[tuple[float, str]]:
    found = [(0.6, _put(line, match, f"({match[2]}, {match[1]})")) for match in _ARGUMENTS.finditer(line)]
    found += [(0.5, _put(line, match, f"{match[2]} + {match[1]}")) for match in _SUM.finditer(line)]
    found += [(0.4, _put(line, match, " += ")) for match in [_ASSIGNMENT.search(line)] if match and "==" not in line]
    for match in _BOUND.finditer(line):
        found += [(0.5, line[: match.start()] + add + line[match.start() :]) for add in (" + 1", " - 1")]
    if line.startswith("        ") and line.lstrip().startswith(("return", "yield")):
        found.append((0.7, line[4:]))
    found += [(0.8, line.replace("not ", "", 1))] if " not " in line else []
    found += [(0.4, line.replace("return ", "return not ", 1))] if "return " in line else []
    found += [(0.3, line.replace("[0]", "[-1]"))] if "[0]" in line else []
    found += [(0.3, line.replace("[-1]", "[0]"))] if "[-1]" in line else []
    return found


def _renamings(line: str, names: frozenset[str]) -> list[tuple[float, str]]:
    matches = [match for match in _WORD.finditer(line) if match.group() in names]
    others = sorted(names)
    return [(0.25, _put(line, match, other)) for match in matches for other in others if other != match.group()]


def _put(line: str, match: re.Match[str], new: str) -> str:
    return line[: match.start()] + new + line[match.end() :]
