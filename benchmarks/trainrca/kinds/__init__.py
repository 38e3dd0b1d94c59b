"""Kinds of faults. A file for `--kinds` has a list `KINDS` of these:

    from benchmarks.trainrca.kinds import CODE, Cause, Kind

    def apply(config, repo, data):
        fault = repo.commit("network: softer", [("network.py", "np.tanh(x)", "np.tanh(3.0 * x)")])
        return Cause(targets=(fault,), cause_kind=CODE)

    KINDS = [Kind(name="activation", family="model code", trainer="clusters", apply=apply)]

`trainer` names the project that is broken: `clusters` (numpy) and `huggingface`, both through the `command` backend,
or `moe` (ours).
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

from benchmarks.trainrca.editing import Apply, Cause
from contracts.enums import CauseKind
from contracts.errors import UserInputError

__all__ = [
    "CODE",
    "CONFIG",
    "DATA",
    "FAMILIES",
    "RESUME",
    "TRAINERS",
    "Apply",
    "Cause",
    "Kind",
    "all_kinds",
    "load_kinds",
]

CODE, CONFIG, DATA, RESUME = CauseKind.CODE, CauseKind.CONFIG, CauseKind.DATA, CauseKind.RESUME
FAMILIES = (
    "optimisation",
    "numerics",
    "data",
    "model code",
    "loop",
    "evaluation",
    "infrastructure",
    "measurement",
    "interaction",
    "healthy",
)
TRAINERS = ("clusters", "huggingface", "moe")
LATE_KINDS = Path(__file__).parents[1] / "late" / "kinds.py"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to break a training. `family` is one of FAMILIES. `late`: written by a stranger to the debug loop."""

    name: str
    family: str
    trainer: str
    apply: Apply
    late: bool = False


def load_kinds(file: Path) -> list[Kind]:
    """The `KINDS` of a Python file. Raises UserInputError when it has none that can be used."""
    try:
        kinds = runpy.run_path(str(file))["KINDS"]
    except (OSError, KeyError, SyntaxError) as error:
        raise UserInputError(f"{file}: {error!r}", remedy="benchmarks/trainrca/README.md shows the form") from error
    for kind in kinds:
        if not isinstance(kind, Kind) or kind.family not in FAMILIES or kind.trainer not in TRAINERS:
            raise UserInputError(
                f"{file}: {kind!r} is no kind of a known family and trainer",
                remedy=f"families: {', '.join(FAMILIES)}; trainers: {', '.join(TRAINERS)}",
            )
    return list(kinds)


def all_kinds() -> list[Kind]:
    """Those of this folder, then the late ones."""
    from benchmarks.trainrca.kinds import arithmetic, course, observed, ours, pairs, published

    found = [*arithmetic.KINDS, *course.KINDS, *observed.KINDS, *pairs.KINDS, *ours.KINDS, *published.KINDS]
    return found + (load_kinds(LATE_KINDS) if LATE_KINDS.exists() else [])
