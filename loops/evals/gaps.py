"""Where the protocol and not the model made a score: differences between readings of the same items, with their cause.

Comparisons are paired by item; a gap is flagged when the exact McNemar test (1947) is below LEVEL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from contracts.errors import UserInputError
from loops.evals.extraction import extractors_of
from loops.evals.protocol import Protocol
from loops.evals.run import Evaluation
from loops.statistics.paired import sign_test_p

LEVEL = 0.01
MANY_UNPARSED = 0.05
UNREAD = "could not be read"
_CAUSES = {"extractor": "extraction", "stop": "stop_words", "start": "start_token", "chat": "chat_template"}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """`points`: second minus first, in points. `cause`: the one thing that differs, or "protocol" for several."""

    cause: str
    first: str
    second: str
    points: float
    p: float
    num_items: int
    sentence: str

    @property
    def is_flagged(self) -> bool:
        return self.p < LEVEL


def gap(one: Evaluation, other: Evaluation) -> Gap:
    """Of two evaluations of the same items by the same model. Raises UserInputError for other items or models."""
    if one.task.digest != other.task.digest or one.model != other.model:
        raise UserInputError(
            f"{one.task.name} of {one.model} and {other.task.name} of {other.model} are not the same measurement",
            remedy="compare protocols over one task and one model",
        )
    differs = _differing(one.protocol, other.protocol)
    cause = _CAUSES.get(differs[0], "protocol") if len(differs) == 1 else "protocol"
    return _gap(cause, (one.protocol.name, one.right), (other.protocol.name, other.right), ", ".join(differs))


def extraction_gaps(evaluation: Evaluation) -> list[Gap]:
    """The protocol's own extractor against each other one over the same outputs."""
    own = evaluation.protocol.extractor
    others = extractors_of(own, evaluation.protocol.matching)[1:]
    if not evaluation.outputs or own not in evaluation.outputs[0].by_extractor:
        return []
    present = [name for name in others if name in evaluation.outputs[0].by_extractor]
    return [
        _gap("extraction", (own, evaluation.right), (name, evaluation.right_by(name)), "the extractor alone")
        for name in present
    ]


def recitation(evaluation: Evaluation) -> Gap | None:
    """Answers after which the model goes on with questions of its own: the first answer against the last one.

    None where the protocol's form has no marker that begins a question.
    """
    marker = evaluation.protocol.question.partition("{")[0].strip()
    names = ("answer_is_leftmost", "answer_is")
    if not marker or any(name not in evaluation.outputs[0].by_extractor for name in names):
        return None
    recited = np.mean([marker in output.text for output in evaluation.outputs])
    if not recited:
        return None
    first, last = (evaluation.right_by(name) for name in names)
    told = f"{100 * recited:.0f} % of the answers go on with another question"
    return _gap("recitation", ("first answer", first), ("last answer", last), told)


def findings(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Every caution and every gap that stands out among all that were looked at (Bonferroni), a sentence each."""
    gaps = list(_gaps(evaluations))
    level = LEVEL / max(1, len(gaps))
    for each in evaluations:
        where = f"{each.task.name} by {each.protocol.name}"
        yield from (f"{where}: {caution.sentence}" for caution in each.warnings)
        if each.unparsed > MANY_UNPARSED:
            yield f"{where}: {100 * each.unparsed:.1f} % of the answers {UNREAD}, apart from wrong ones"
    yield from (f"{where}: {found.sentence}" for where, found in gaps if found.p < level)


def _gaps(evaluations: Sequence[Evaluation]) -> Iterator[tuple[str, Gap]]:
    """Of each evaluation by itself, then between those of one task and model."""
    for each in evaluations:
        told = [*extraction_gaps(each), recitation(each)]
        yield from ((f"{each.task.name} by {each.protocol.name}", found) for found in told if found is not None)
    for one, other in combinations(evaluations, 2):
        if one.task.digest == other.task.digest and one.model == other.model:
            yield one.task.name, gap(one, other)


def _gap(cause: str, first: tuple[str, NDArray[np.float64]], second: tuple[str, NDArray[np.float64]], what: str) -> Gap:
    difference = second[1] - first[1]
    gained, lost = int((difference > 0).sum()), int((difference < 0).sum())
    points = 100.0 * float(difference.mean())
    return Gap(
        cause=cause,
        first=first[0],
        second=second[0],
        points=points,
        p=sign_test_p(gained, gained + lost),
        num_items=difference.size,
        sentence=f"{second[0]} gives {points:+.1f} points against {first[0]} on {difference.size} items ({what})",
    )


def _differing(one: Protocol, other: Protocol) -> list[str]:
    """Fields that decide scores and are not equal."""
    a, b = asdict(one), asdict(other)
    return [name for name in a if name not in ("name", "version") and a[name] != b[name]]
