"""Which changes of a recipe are worth a pilot: a person's, else what the run's potential and past findings suggest.

No change that a stored negative result of the same project already ruled out is proposed again; it is named instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from context_store import Store
from context_store.records import NegativeResult
from contracts.enums import Verdict as Proven
from contracts.events import Scalar
from loops.potential.recipe.plan import BASELINE, Candidate, name_of
from loops.potential.verdicts import Verdict

TRIED = "recipe_change"  # the context field under which a tried change is remembered
_RATES = ("attention", "experts")

Overrides = Mapping[str, Scalar]


def candidates(
    store: Store, run_id: str, wishes: Sequence[Overrides], reading: Mapping[str, Any], reading_case: str
) -> tuple[tuple[Candidate, ...], tuple[tuple[str, NegativeResult], ...]]:
    """The unchanged recipe and the changes; and each change that is known not to help, with the result that says so."""
    known = _tried(store, store.runs.get(run_id).project_id)
    evidence = (f"run:{run_id}", f"investigation:{reading_case}", *_diagnoses(store, run_id))
    why = f"the run's potential reads {Verdict(reading['verdict']['verdict']).value.replace('_', ' ')}"
    asked = [(each, "a person asked for it") for each in wishes]
    changes = asked or [(each, why) for each in _suggested(store, run_id)]
    found = [Candidate(name=BASELINE, overrides={}, why="what the others are compared with", evidence=evidence)]
    left_out = []
    for change, reason in changes:
        name = name_of(change)
        if name in known:
            left_out.append((name, known[name]))
        else:
            found.append(Candidate(name=name, overrides=dict(change), why=reason, evidence=evidence))
    return tuple(found), tuple(left_out)


def _suggested(store: Store, run_id: str) -> list[Overrides]:
    """By rule: half and twice the rates of the matrices, a tenth of the balance loss."""
    declared = store.runs.declared(run_id, store.runs.segments(run_id)[-1].number)
    rates = {f"optim.{group}.lr": declared.get(f"optim.{group}.lr") for group in _RATES}
    numbers = {key: float(value) for key, value in rates.items() if isinstance(value, int | float)}
    changes: list[Overrides] = [{key: value * factor for key, value in numbers.items()} for factor in (0.5, 2.0)]
    balance = declared.get("moe.balance.coef")
    if isinstance(balance, int | float) and balance > 0:
        changes.append({"moe.balance.coef": float(balance) / 10})
    return [change for change in changes if change]


def _diagnoses(store: Store, run_id: str) -> list[str]:
    """What was proven about this run: a change is read beside it."""
    cases = store.knowledge.investigations(run_id=run_id)
    found = [verdict for case in cases for verdict in store.knowledge.verdicts(case.id)]
    return [f"verdict:{each.id}" for each in found if each.verdict is Proven.PROVEN]


def _tried(store: Store, project_id: str) -> dict[str, NegativeResult]:
    """Changes of this project's recipes that did not help, by name."""
    found = [each for each in store.negatives.list() if TRIED in each.context and each.superseded_by is None]
    return {
        _name(each): each
        for each in found
        if each.investigation_id is not None
        and store.knowledge.investigation(each.investigation_id).project_id == project_id
    }


def _name(tried: NegativeResult) -> str:
    """By the change itself, whatever it was called when it was stored."""
    return name_of({key: value for key, value in tried.context.items() if key != TRIED})
