"""The positive control: one edit that is known to help, on a base that lacks what the edit gives.

Both are fixed, whatever scaffold a run evolves: our plain one without the two tools that change files, and the same
with them. Neither a repair nor a command's output can be handed in without, so the edit helps by what it is.
"""

from __future__ import annotations

import json
from pathlib import Path

from loops.evolve.archive import read_files
from loops.evolve.surface import Files, params_of

_PLAIN = Path(__file__).parent / "scaffolds" / "plain"


def control() -> tuple[Files, Files]:
    """The base and the edited scaffold."""
    after = read_files(_PLAIN)
    params = params_of(after)
    fewer = {**params, "tools": [name for name in params["tools"] if name not in ("edit", "shell")]}
    return {**after, "params.json": json.dumps(fewer, indent=2) + "\n"}, after
