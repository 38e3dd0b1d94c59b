"""Evidence references: exactly which points, hunk, field, run or output a statement rests on.

Text form: `kind:id` or `kind:id#slice`, for instance `series:run-7/max_vio%2Flayers.5#180..195`,
`hunk:3f2a9c/balance.py#12..18`, `config:run-7/moe.balance_coef`, `run:rr-12`, `negative:4`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contracts.errors import UserInputError

KINDS = frozenset(
    {
        "anomaly", "benchmark", "checkpoint", "commit", "config", "decontamination", "diagnostic", "document",
        "event", "experiment", "hunk", "investigation", "memory", "negative", "note", "pipeline", "policy",
        "proposal", "run", "schedule", "score", "series", "subset", "suspect", "thread", "token", "verdict",
    }
)  # fmt: skip
_FORM = re.compile(r"^(?P<kind>[a-z_]+):(?P<id>[^#\s]+)(?:#(?P<slice>\S+))?$")


@dataclass(frozen=True, kw_only=True)
class EvidenceRef:
    """One link from a statement to a stored object, optionally to a slice of it."""

    kind: str
    id: str
    slice: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" + (f"#{self.slice}" if self.slice else "")

    @classmethod
    def parse(cls, text: str) -> EvidenceRef:
        """Inverse of `str`. Raises UserInputError when `text` is no reference or names an unknown kind."""
        match = _FORM.match(text)
        if match is None or match["kind"] not in KINDS:
            raise UserInputError(
                f"'{text}' is not an evidence reference",
                remedy="write kind:id or kind:id#slice with one of the kinds: " + ", ".join(sorted(KINDS)),
            )
        return cls(kind=match["kind"], id=match["id"], slice=match["slice"] or "")
