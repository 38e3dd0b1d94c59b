"""How suspicious a change is, from what `ranking` read of it; and what each sign weighs.

Nothing but the standard library: an evolution run takes this file as it is into its sandbox and moves `WEIGHTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WEIGHTS: Mapping[str, float] = {
    # the classes of change by substance; an innocent-looking one is examined last, not never
    "documentation": 0.02,
    "comment": 0.04,
    "rename": 0.08,
    "logging": 0.08,
    "small_number": 0.3,
    "logic": 0.8,
    "large_number": 1.0,
    # parts of the match with what departs
    "base": 0.1,
    "scope": 0.4,
    "module": 0.2,
    "explains": 0.4,
    "reads": 0.3,
    "harmed": 0.5,
    # what the whole is multiplied with
    "earlier": 0.3,
    "untestable": 0.15,
    "excluded_before": 0.3,
    "near": 20.0,  # steps before the onset at which timing counts half of what it can
    # from other cases and runs
    "hint": 0.5,  # an earlier case in other circumstances
    "harmless_elsewhere": 0.5,  # other runs that had it without the anomaly
    "shown_elsewhere": 0.2,  # and with it
    "told_by_log": 0.3,  # a recomputation says that the shares of the data moved the loss
    "place": 0.5,  # a rank that departs: its machine, or its share of the data
}


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What was read of one change or circumstance.

    `substance`: a class of `substance.Substance` by its name in small letters. `link` and `reads` in 0..1: how much its
    words, and the fields it reads, bear on what departs. `gap`: steps from its coming into force to the onset.
    `precedent`: 2 when an earlier case like this one proved it, 1 in other circumstances. `elsewhere`: `free` when
    other runs had it without the anomaly, `showing` when all that had it show it. `of_a_rank`: it is one rank's place.
    `told_by_log`: a recomputation points at what is `printed`, or at the `shares` of the data.
    """

    substance: str = "logic"
    link: float = 0.0
    reads: float = 0.0
    layers: bool = False
    modules: bool = False
    explains: bool = False
    harmed: bool = False
    excluded: bool = False
    gap: int = 0
    is_new: bool = True
    testable: bool = True
    of_a_rank: bool = False
    precedent: int = 0
    elsewhere: str = ""
    told_by_log: str = ""


def score(signs: Signs, weights: Mapping[str, float] = WEIGHTS) -> float:
    """0..1."""
    found = weights["place"] if signs.of_a_rank else _of_change(signs, weights)
    if signs.precedent:
        found += weights["harmed"] * (1.0 if signs.precedent == 2 else weights["hint"]) * (1.0 - found)
    if signs.told_by_log == "shares":
        found += weights["told_by_log"] * (1.0 - found)
    if signs.elsewhere == "free":
        return weights["harmless_elsewhere"] * found
    return found + weights["shown_elsewhere"] * (1.0 - found) if signs.elsewhere else found


def _of_change(signs: Signs, weights: Mapping[str, float]) -> float:
    parts = ("base", "scope", "module", "explains", "reads", "harmed")
    base, scope, module, explains, reads, harmed = (weights[name] for name in parts)
    match = base + signs.link + scope * signs.layers + module * signs.modules + explains * signs.explains
    match += reads * signs.reads + harmed * signs.harmed
    found = (
        match
        / (base + 1.0 + scope + module + explains + reads + harmed)
        * weights["logic" if signs.told_by_log == "printed" else signs.substance]
    )
    near = weights["near"]
    found *= (0.5 + 0.5 * near / (near + signs.gap)) * (1.0 if signs.is_new else weights["earlier"])
    found *= 1.0 if signs.testable else weights["untestable"]
    return found * (weights["excluded_before"] if signs.excluded else 1.0)
