"""Recomputation from what was logged, before anything is run again: it costs no re-run.

A logged number is put together again from its logged parts. Where that gave the number until the onset and does not
any more, how it is made has changed; where it still does, the parts themselves have moved. A loss over several sources
is taken apart into the part that comes with their shares and the part that comes from within them (Kitagawa 1955).
Both point to where to look first; they prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from context_store import Store
from context_store.records import Anomaly
from contracts.evidence import EvidenceRef
from contracts.names import SeriesName
from loops.debug.finding import series_ref
from loops.debug.view import Floats, RunView, Steps, view_run

_LOSSES = ("lm_loss", "loss")
_SOURCE_LOSS, _SHARE = "lm_loss/source.", "mixture/source."
_EQUAL, _OFF = 1e-3, 0.02  # relative: the same number, and clearly another one
_MIN_POINTS = 10  # on either side
_WINDOW = 40  # points on either side that a loss is taken apart over
_CLEAR = 3.0  # standard errors
_MOST = 0.7  # share of a difference that is most of it
_NUM_SERIES = 4  # of an anomaly


class Pointer(StrEnum):
    """Where a recomputation says to look first."""

    HOW_IT_IS_MADE = "how the number is made"
    ITS_PARTS = "what it is made of"
    SHARES = "the shares of the sources"
    SOURCES = "the sources themselves"


@dataclass(frozen=True, kw_only=True)
class Recomputed:
    """One recomputation: what it points at, in words, and the logged points it was made of."""

    pointer: Pointer
    sentence: str
    evidence: tuple[EvidenceRef, ...]


def recomputed(
    store: Store, run_id: str, anomalies: Sequence[Anomaly], upto_segment: int | None
) -> tuple[Recomputed, ...]:
    """What the log of a run says of the case's leading anomaly; empty where nothing can be put together."""
    if not anomalies:
        return ()
    known = store.series.names(run_id)
    wholes = [name for name in anomalies[0].series[:_NUM_SERIES] if name in known]
    wanted = {each for name in wholes for each in (name, *(part for _, parts in _ways(name, known) for part in parts))}
    if set(wholes) & {*_LOSSES}:
        wanted |= {name for name in known if name.startswith((_SOURCE_LOSS, _SHARE)) or name == _LOSSES[0]}
    if not wanted:
        return ()
    view = view_run(store, run_id, names=tuple(sorted(wanted)), upto_segment=upto_segment)
    return recomputed_of(view, wholes, anomalies[0].onset)


def recomputed_of(view: RunView, names: Sequence[str], onset: tuple[int, int]) -> tuple[Recomputed, ...]:
    """The same on a view: each of `names` from its parts, and the first loss among them by its sources."""
    found = [_whole(view, name, onset) for name in names]
    found += [_by_source(view, name, onset) for name in names if name in _LOSSES][:1]
    return tuple(each for each in found if each is not None)


# --- a whole from its parts -------------------------------------------------------------------------------------

_Way = Callable[[Floats], Floats]  # [parts, steps] -> [steps]
_WAYS: Mapping[str, _Way] = {
    "the mean": lambda parts: np.mean(parts, axis=0),
    "the largest": lambda parts: np.max(parts, axis=0),
    "the sum": lambda parts: np.sum(parts, axis=0),
    "the root of the sum of squares": lambda parts: np.sqrt(np.sum(np.square(parts), axis=0)),
}
_EXCESS: Mapping[str, _Way] = {"the largest, less 1,": lambda parts: np.max(parts, axis=0) - 1.0}


def _ways(name: str, known: Sequence[str]) -> list[tuple[Mapping[str, _Way], tuple[str, ...]]]:
    """Families of parts that `name` may be put together from, with the ways to do it."""
    found: list[tuple[Mapping[str, _Way], tuple[str, ...]]] = []
    if len(parts := _outermost(name, known)) >= 2:
        found.append((_WAYS, parts))
    statistic, _, place = name.partition("/")
    loads = tuple(each for each in known if place and each.startswith(f"expert_load/{place}/"))
    if statistic == "max_vio" and len(loads) >= 2:
        found.append((_EXCESS, loads))
    return found


def _outermost(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Parts that are no parts of parts: modules of one statistic, over all ranks, sources and groups left out."""
    parts = [each for each in known if each.startswith(f"{name}/") and "source." not in each and "group." not in each]
    modules = {each: SeriesName.parse(each).module for each in parts if SeriesName.parse(each).rank is None}
    inner = {a for a, one in modules.items() for two in modules.values() if one.startswith(f"{two}.")}
    return tuple(sorted(each for each in modules if each not in inner and "/experts." not in each))


def _whole(view: RunView, name: str, onset: tuple[int, int]) -> Recomputed | None:
    """None unless one way gave the number at every step before the onset."""
    for ways, parts in _ways(name, list(view.values)):
        rows = np.array([view.values[part] for part in parts])
        logged = view.values[name]
        whole = np.isfinite(logged) & np.isfinite(rows).all(axis=0)
        before, after = whole & (view.steps <= onset[0] - 1), whole & (view.steps >= onset[1])
        if min(before.sum(), after.sum()) < _MIN_POINTS:
            continue
        for words, way in ways.items():
            error = np.abs(way(rows) - logged) / np.maximum(np.abs(logged), 1e-12)
            if (error[before] <= _EQUAL).all():
                return _told(view, name, (words, parts), error, before, after)
    return None


def _told(
    view: RunView, name: str, made: tuple[str, tuple[str, ...]], error: Floats, before: Floats, after: Floats
) -> Recomputed | None:
    words, parts = made
    off, last = float(np.median(error[after])), int(view.steps[-1])
    how = f"{name} was {words} of its {len(parts)} parts at all {int(before.sum())} steps before"
    evidence = tuple(series_ref(view.run_id, each, int(view.steps[0]), last) for each in (name, parts[0], parts[-1]))
    if (error[after] <= _EQUAL).all():
        sentence = f"{how} and at all {int(after.sum())} after: it is put together as before, its parts have moved"
        return Recomputed(pointer=Pointer.ITS_PARTS, sentence=sentence, evidence=evidence)
    if off < _OFF:
        return None
    sentence = f"{how}, and is {off:.0%} off after: how it is put together, or what is logged of it, has changed"
    return Recomputed(pointer=Pointer.HOW_IT_IS_MADE, sentence=sentence, evidence=evidence)


# --- a loss by its sources --------------------------------------------------------------------------------------


def _by_source(view: RunView, name: str, onset: tuple[int, int]) -> Recomputed | None:
    """None where the sources were not logged apart, or the loss differs by no more than it scatters."""
    sources = sorted({each.removeprefix(_SHARE) for each in view.values if each.startswith(_SHARE)})
    sources = [each for each in sources if f"{_SOURCE_LOSS}{each}" in view.values]
    if len(sources) < 2:
        return None
    name = _LOSSES[0] if _LOSSES[0] in view.values else name
    losses, shares = (np.array([view.values[f"{p}{s}"] for s in sources]) for p in (_SOURCE_LOSS, _SHARE))
    shares = np.nan_to_num(shares)
    before = np.flatnonzero(view.steps <= onset[0] - 1)[-_WINDOW:]
    after = np.flatnonzero(view.steps >= onset[1])[:_WINDOW]
    if min(before.size, after.size) < _MIN_POINTS or not _differs(view.values[name], before, after):
        return None
    (p0, l0), (p1, l1) = (_means(shares[:, part], losses[:, part]) for part in (before, after))
    if np.isnan(l0 + l1).any():
        return None  # a source that only one side has cannot be told from its share
    by_share = float(np.sum((p1 - p0) * (l0 + l1)) / 2.0)
    within = float(np.sum((l1 - l0) * (p0 + p1)) / 2.0)
    return _taken_apart(view, name, sources, by_share, within)


def _differs(values: Floats, before: Steps, after: Steps) -> bool:
    one, two = (part[np.isfinite(part)] for part in (values[before], values[after]))
    if min(one.size, two.size) < _MIN_POINTS:
        return False
    scatter = np.sqrt(one.var(ddof=1) / one.size + two.var(ddof=1) / two.size)
    return bool(abs(two.mean() - one.mean()) > _CLEAR * scatter)


def _means(shares: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """(share of each source, its mean loss over its samples); NaN for the loss of one that had none."""
    weight = np.where(np.isfinite(losses), shares, 0.0)
    total = weight.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weight * np.nan_to_num(losses)).sum(axis=1) / total
    return shares.mean(axis=1), mean


def _taken_apart(view: RunView, name: str, sources: Sequence[str], by_share: float, within: float) -> Recomputed | None:
    total = by_share + within
    part = by_share / total if total else 0.0
    if not (part >= _MOST or 0.0 <= part <= 1.0 - _MOST):
        return None
    pointer = Pointer.SHARES if part >= _MOST else Pointer.SOURCES
    sentence = (
        f"taken apart by its {len(sources)} sources, {name} moved by {total:+.3f}, of which {by_share:+.3f} comes with "
        f"their shares and {within:+.3f} from within them"
    )
    steps = int(view.steps[0]), int(view.steps[-1])
    evidence = tuple(
        series_ref(view.run_id, f"{prefix}{each}", *steps) for each in sources[:2] for prefix in (_SHARE, _SOURCE_LOSS)
    )
    return Recomputed(pointer=pointer, sentence=sentence, evidence=evidence)
