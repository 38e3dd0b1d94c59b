"""Whether a change of code is in force: it may have been taken back since, and be there again under another name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from context_store.records import Hunk

_Edit = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`by`: the commit that had the last word, "" when none spoke of it."""

    in_force: bool
    by: str


def standing(change: Iterable[Hunk], history: Iterable[Hunk], order: Sequence[str]) -> Standing:
    """The last word on `change` among the commits in `order` (parents first), whose hunks are in `history`.

    A commit makes the change when it has all of its hunks, whatever else it does, and takes it back when it has all of
    them the other way round. Blanks at the ends of lines do not count, nor does where in its file a hunk stands.
    """
    wanted = {_edit(hunk) for hunk in change}
    reverse = {(path, added, removed) for path, removed, added in wanted}
    edits: dict[str, set[_Edit]] = {}
    for hunk in history:
        edits.setdefault(hunk.commit, set()).add(_edit(hunk))
    found = Standing(in_force=False, by="")
    for commit in order if wanted else ():
        made = edits.get(commit, set())
        if wanted <= made:
            found = Standing(in_force=True, by=commit)
        elif reverse <= made:
            found = Standing(in_force=False, by=commit)
    return found


def _edit(hunk: Hunk) -> _Edit:
    """(path, lines removed, lines added)."""
    lines = [(line[:1], line[1:].rstrip()) for line in hunk.text.splitlines()]
    removed, added = (tuple(text for mark, text in lines if mark == wanted) for wanted in "-+")
    return hunk.path, removed, added
