"""Which Python names the changed lines of a file belong to."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A function, class ("Class.method") or module-level name with its first and last line."""

    name: str
    first: int
    last: int


def definitions(source: str) -> tuple[Definition, ...]:
    """All definitions of a file, outer ones before inner ones; empty when it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(_walk(tree.body, ""))


def touched(found: tuple[Definition, ...], start: int, num_lines: int) -> tuple[str, ...]:
    """Innermost definitions of lines `start` .. `start + num_lines - 1` (1-based), in order of appearance."""
    names: dict[str, None] = {}
    for line in range(start, start + num_lines):
        around = [definition for definition in found if definition.first <= line <= definition.last]
        if around:
            names[around[-1].name] = None
    return tuple(names)


def _walk(body: list[ast.stmt], prefix: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            name = prefix + node.name
            yield Definition(name=name, first=first, last=node.end_lineno or node.lineno)
            inner = node.body if isinstance(node, ast.ClassDef) else _nested(node.body)
            yield from _walk(inner, name + ".")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield Definition(name=prefix + target.id, first=node.lineno, last=node.end_lineno or node.lineno)
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from _walk(getattr(node, block, []), prefix)


def _nested(body: list[ast.stmt]) -> list[ast.stmt]:
    """Of a function's body only the definitions: its local variables are no names of the module."""
    return [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
