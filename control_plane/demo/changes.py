"""What a commit of the demo project changes, as search-and-replace on the project's files.

Edits of different changes touch lines that lie apart, so every commit can be reverted or picked alone, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.errors import UserInputError


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Replace `before`, which occurs exactly once in the file `path`, by `after`."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """One commit: its message and its edits."""

    subject: str
    body: str = ""
    edits: tuple[Edit, ...]

    @property
    def message(self) -> str:
        return f"{self.subject}\n\n{self.body}".strip() + "\n"


def apply(change: Change, project: Path) -> None:
    """Write the change into the working tree. Raises UserInputError when a text is not found exactly once."""
    for edit in change.edits:
        file = project / edit.path
        text = file.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            raise UserInputError(
                f"'{change.subject}' does not fit {file}: its text occurs {text.count(edit.before)} times",
                remedy="remove the demo's folder and start it again; if it comes back, report this as a fault of Lathe",
            )
        file.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
