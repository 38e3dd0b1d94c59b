"""When two diffs are the same idea: compared as changes of meaning, not of text.

Python counts by its syntax tree without docstrings, with local names replaced by their order; JSON by its values; other
text without case and blanks. What is left of a diff that changes comments only is nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

Files = Mapping[str, str]
SAME = 0.85  # Jaccard similarity of the parts from which on two ideas are the same


def parts_of(before: Files, after: Files) -> frozenset[str]:
    """The elementary changes of a diff; empty when nothing that means something changes."""
    found: set[str] = set()
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            old, new = _meaning(name, before.get(name, "")), _meaning(name, after.get(name, ""))
            found |= {f"+{name}:{each}" for each in new - old} | {f"-{name}:{each}" for each in old - new}
    return frozenset(found)


def key_of(parts: Collection[str]) -> str:
    """ "" for no change at all."""
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest() if parts else ""


def likeness(one: Collection[str], other: Collection[str]) -> float:
    """Jaccard similarity of two sets of parts."""
    both = len(set(one) | set(other))
    return len(set(one) & set(other)) / both if both else 0.0


def _meaning(name: str, text: str) -> set[str]:
    if name.endswith(".json"):
        return _leaves(json.loads(text or "{}"), "")
    if name.endswith(".py"):
        return _statements(text)
    return {" ".join(line.lower().split()) for line in text.splitlines() if line.strip()}


def _leaves(value: Any, path: str) -> set[str]:
    """Each value with its path; members of lists with what stands before them, because the order may matter."""
    if isinstance(value, dict):
        return {leaf for key, each in value.items() for leaf in _leaves(each, f"{path}.{key}")}
    if isinstance(value, list):
        return {f"{path}[]={json.dumps(each)}" for each in value} | {f"{path}#{json.dumps(value)}"}
    return {f"{path}={json.dumps(value)}"}


def _statements(text: str) -> set[str]:
    """One element for each simple statement and each head of a compound one, names of arguments and locals by order."""
    found = set()
    tree = ast.parse(text)
    ours = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    ours |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt) and not _is_docstring(child):
                bare = [ast.dump(part) for part in ast.iter_child_nodes(child) if not isinstance(part, ast.stmt)]
                found.add(_renamed(f"{type(child).__name__}({','.join(bare)})", ours))
    return found


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _renamed(dump: str, ours: Collection[str]) -> str:
    order: dict[str, str] = {}

    def short(match: re.Match[str]) -> str:
        if match[2] not in ours:
            return match[0]
        return f"{match[1]}='{order.setdefault(match[2], f'v{len(order)}')}'"

    return re.sub(r"\b(id|arg)='(\w+)'", short, dump)
