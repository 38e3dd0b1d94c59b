"""Chips: a verdict with its scope, evidence links, plain facts."""

from __future__ import annotations

from collections.abc import Sequence

from ui import links
from ui.components.markup import escape, words

_SIGNS = {"proven": "✔", "refuted": "✕", "cannot_tell": "?", "nothing_found": "○"}
_SCOPES = {
    "this_run": "holds for this run: replayed from its own checkpoint",
    "same_code_small": "holds for a small run of the same code",
    "embedded_proxy": "holds for Lathe's own small trainer, not yet for your run",
    "observed": "observed only: no re-run was made",
}


def verdict(outcome: str, scope: str | None) -> str:
    """A verdict is never shown without its scope."""
    reach = words(scope) if scope else "no scope stated"
    meaning = _SCOPES.get(scope or "", reach)
    sign = _SIGNS.get(outcome, "?")
    return (
        f'<span class="lt-chip lt-verdict lt-{escape(outcome)}" title="{escape(meaning)}">{sign} '
        f"{escape(words(outcome))}<small>{escape(reach)}</small></span>"
    )


def fact(label: str, value: object) -> str:
    return f'<span class="lt-fact"><small>{escape(label)}</small> {escape(value)}</span>'


def state(word: str) -> str:
    """The state of a run."""
    return f'<span class="lt-chip lt-state lt-{escape(word)}">{escape(words(word))}</span>'


def tag(text: str) -> str:
    return f'<span class="lt-chip lt-tag">{escape(words(text))}</span>'


def evidence(references: Sequence[str]) -> str:
    """Links to what a statement rests on; where no page shows the object, its name."""
    return "".join(_reference(reference) for reference in references)


def _reference(reference: str) -> str:
    label, address = links.evidence(reference)
    inside = f'class="lt-evidence" title="{escape(reference)}"'
    if not address:
        return f"<span {inside}>{escape(label)}</span>"
    return f'<a {inside} href="{escape(address)}" target="_self">{escape(label)}</a>'
