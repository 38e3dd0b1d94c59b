"""Plants in clean mails what transport, mail programs and lists do to them, so that a rewriter can be judged."""

from __future__ import annotations

import html

import numpy as np

_FOOTER = (
    "_______________________________________________\n{name} mailing list\n{name}@lists.example\n"
    "http://lists.example/mailman/listinfo/{name}\n"
)
_NAMES = ("users", "devel", "announce", "forks")
_SOFT_BREAK_AT = 60
_CHANCE = 0.5  # of each kind of damage


def damaged(text: str, rng: np.random.Generator) -> str:
    """At least one kind of damage. What can be known of `text` itself is never lost."""
    kinds = [kind for kind in (_blanks, _entities, _quotes, _footer, _escaped, _line_ends) if rng.random() < _CHANCE]
    for kind in kinds or [_blanks]:
        text = kind(text, rng)
    return text


def _blanks(text: str, rng: np.random.Generator) -> str:
    lines = [line + " " * int(rng.integers(0, 4)) for line in text.split("\n")]
    return "\n".join(lines).replace("\n\n", "\n\n\n\n") + "\n\n"


def _entities(text: str, rng: np.random.Generator) -> str:
    return html.escape(text, quote=True).replace("&#x27;", "&#39;")


def _quotes(text: str, rng: np.random.Generator) -> str:
    lines = [f"{'> ' * line.count('>', 0, 6)}{line.lstrip('> ')}" if line.startswith(">>") else line
             for line in text.split("\n")]  # fmt: skip
    return "\n".join(lines)


def _footer(text: str, rng: np.random.Generator) -> str:
    return text.rstrip("\n") + "\n" + _FOOTER.format(name=_NAMES[int(rng.integers(len(_NAMES)))])


def _escaped(text: str, rng: np.random.Generator) -> str:
    lines = []
    for line in text.replace("=", "=3D").split("\n"):
        if len(line) > _SOFT_BREAK_AT and "=3D" not in line[_SOFT_BREAK_AT - 3 : _SOFT_BREAK_AT + 3]:
            line = f"{line[:_SOFT_BREAK_AT]}=\n{line[_SOFT_BREAK_AT:]}"
        lines.append(line)
    return "\n".join(lines)


def _line_ends(text: str, rng: np.random.Generator) -> str:
    return text.replace("\n", "\r\n")
