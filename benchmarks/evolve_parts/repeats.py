"""Planted repeats of ideas in other words, and pairs of different ideas: which of them count as the same.

It tries the likeness that refuses proposals in a run. That a run itself repeats nothing is measured with that likeness
too and holds by construction; what is measured here is how the likeness stands up to disguises of `disguised`, which do
not change what a file does, and to no others.
"""

from __future__ import annotations

import re
from pathlib import Path

from loops.evolve import operators
from loops.evolve.archive import read_files
from loops.evolve.ideas import SAME, likeness, parts_of

SCAFFOLDS = Path(operators.__file__).parent / "scaffolds"


def disguised(text: str, name: str) -> str:
    """The same change written otherwise: a comment and another docstring, indentation of JSON, blanks and case."""
    if name.endswith(".py"):
        return re.sub(r'^"""[^"]*"""', '"""Something else."""\n# written again', text)
    if name.endswith(".json"):
        return text.replace("\n  ", "\n      ")
    return text.upper() + "\n   \n"


def repeats() -> dict[str, float | str]:
    """Over all moves of both our scaffolds, each against its own disguise and against every other move."""
    planted = refused = others = wrongly = 0
    for scaffold in sorted(SCAFFOLDS.iterdir()):
        files = read_files(scaffold)
        changed = [operators.apply(files, move) for move in operators.moves(files)]
        parts = [parts_of(files, after) for after in changed]
        for after, known in zip(changed, parts, strict=True):
            again = {name: text if files.get(name) == text else disguised(text, name) for name, text in after.items()}
            planted += 1
            refused += likeness(parts_of(files, again), known) >= SAME
        for first in range(len(parts)):
            for second in range(first):
                others += 1
                wrongly += likeness(parts[first], parts[second]) >= SAME
    return {
        "planted_repeats": planted, "planted_repeats_refused": refused / planted,
        "repeats_measured_by": "the likeness that refuses them, on the disguises of benchmarks/evolve_parts/repeats.py",
        "pairs_of_new_ideas": others, "new_ideas_wrongly_refused": wrongly / others,
    }  # fmt: skip
