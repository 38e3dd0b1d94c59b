"""Methods that run nothing: the newest change, the largest step of a field, the nearest incident, a learned tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.trainrca.answers import NAMED, Answer, Change, Facts
from benchmarks.trainrca.form import Truth
from contracts.enums import CauseKind, Verdict
from loops.debug.substance import Substance

_TREE_DEPTH = 5


def newest_change(facts: Facts) -> Answer:
    """The last commit before the onset."""
    return _naming(facts, [change.key for change in reversed(facts.changes)])


def config_diff(facts: Facts) -> Answer:
    """The field with the largest ratio of new to old; "cannot tell" where no field changed."""
    fields = sorted((c for c in facts.changes if c.jump > 0), key=lambda c: -c.jump)
    return _naming(facts, [change.key for change in fields])


def nearest_incident(facts: Facts, library: Sequence[tuple[Facts, Truth]]) -> Answer:
    """What is most like the cause of the past incident whose symptoms are most like these. The case itself is out."""
    past = [(f, t) for f, t in library if f.case_id != facts.case_id and f.symptoms and t.answer == "cause"]
    if not past or not facts.symptoms:
        return _naming(facts, [])
    other, truth = max(past, key=lambda p: _overlap(facts.symptoms, p[0].symptoms))
    words = [word for change in other.changes if change.key in truth.targets for word in change.words]
    order = sorted(facts.changes, key=lambda c: -_overlap(c.words, words))
    return _naming(facts, [change.key for change in order])


def tree(facts: Facts, library: Sequence[tuple[Facts, Truth]], truth: Truth) -> Answer:
    """A decision tree over changes, learned from the incidents of all *other* kinds (easy features leak otherwise)."""
    from sklearn.tree import DecisionTreeClassifier

    rows, wanted = [], []
    for other, of_other in library:
        if of_other.kind != truth.kind and of_other.answer == "cause":
            for number, change in enumerate(other.changes):
                rows.append(_features(other, change, number))
                wanted.append(change.key in of_other.targets)
    if not any(wanted) or all(wanted) or not facts.changes:
        return _naming(facts, [])
    model = DecisionTreeClassifier(max_depth=_TREE_DEPTH, class_weight="balanced", random_state=1).fit(rows, wanted)
    scores = model.predict_proba([_features(facts, c, n) for n, c in enumerate(facts.changes)])[:, 1]
    return _naming(facts, [facts.changes[int(i)].key for i in np.argsort(-scores, kind="stable")])


def by_rule(facts: Facts, library: Sequence[tuple[Facts, Truth]], truth: Truth) -> Mapping[str, Answer]:
    """All of them. `truth` only says which incidents the tree may not learn from."""
    return {
        "newest_change": newest_change(facts),
        "config_diff": config_diff(facts),
        "nearest_incident": nearest_incident(facts, library),
        "tree": tree(facts, library, truth),
    }


def _naming(facts: Facts, order: Sequence[str]) -> Answer:
    if not facts.symptoms:
        return Answer(verdict=str(Verdict.NOTHING_FOUND), seconds=facts.seconds)
    if not order:
        return Answer(verdict=str(Verdict.CANNOT_TELL), found_at=facts.found_at, seconds=facts.seconds)
    return Answer(
        verdict=NAMED,
        named=(order[0],),
        ranking=tuple(order),
        found_at=facts.found_at,
        seconds=facts.seconds,
    )


def _overlap(one: Sequence[str], two: Sequence[str]) -> float:
    """Jaccard (1901): shared over all."""
    a, b = set(one), set(two)
    return len(a & b) / len(a | b) if a | b else 0.0


def _features(facts: Facts, change: Change, number: int) -> list[Any]:
    kinds = [change.cause_kind == kind for kind in CauseKind]
    place = (number + 1) / len(facts.changes)
    words = set(" ".join(change.words).replace("_", " ").replace(".", " ").split())
    symptom = set(" ".join(facts.symptoms).replace("_", " ").replace("/", " ").replace(".", " ").split())
    substance = [change.substance == each for each in Substance]
    return [place, change.jump, change.num_lines, len(words & symptom), len(facts.changes), *kinds, *substance]
