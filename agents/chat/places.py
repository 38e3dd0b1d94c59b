"""What a question is about in the store: which run, which case, which series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents import evidence
from agents.chat.answer import Card, CardKind
from agents.chat.questions import Asked
from agents.tools.matching import best, words
from context_store import Store
from context_store.records import Anomaly, Investigation
from contracts.enums import RunRole, TimelineKind
from contracts.names import SeriesName

_MAX_RUNS = 500
_MARGIN = 3  # a plot shows so many times the onset's distance around it
_MIN_WINDOW = 30


@dataclass(frozen=True, kw_only=True)
class ChatContext:
    """Where the question is asked: on the page of a run or a case, in a thread. Empty: anywhere."""

    run_id: str = ""
    investigation_id: str = ""
    thread_id: str = ""


class Places:
    """Resolves names and words of questions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run_ids(self) -> list[str]:
        return [run.id for run in self._store.runs.list(limit=_MAX_RUNS)]

    def run(self, asked: Asked, context: ChatContext) -> str | None:
        """The run meant: the named one, that of the page, the only training, or that of the case the words fit."""
        if asked.runs:
            return asked.runs[0].partition("#")[0]
        if context.investigation_id:
            return self._store.knowledge.investigation(context.investigation_id).run_id
        if context.run_id:
            return context.run_id
        trainings = self._store.runs.list(role=RunRole.TRAINING, limit=2)
        if len(trainings) == 1:
            return trainings[0].id
        cases = self.cases(asked, context)
        return cases[0].run_id if cases else None

    def cases(self, asked: Asked, context: ChatContext) -> list[Investigation]:
        """Cases that the question's words fit, best first; on a page of a run or case, or with a run named, of that."""
        if context.investigation_id and not asked.runs:
            return [self._store.knowledge.investigation(context.investigation_id)]
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        known = self._store.knowledge.investigations(run_id=run_id)
        if run_id and self.statistic(asked, run_id):
            measured = {each.id for each in self.anomalies(asked, run_id)}
            return [case for case in known if measured & set(case.anomaly_ids)]
        fitting = best(asked.topic, known, self.case_text, limit=5)
        return fitting or (known if run_id and self._is_general(asked, run_id) else [])

    def case_text(self, case: Investigation) -> str:
        """Everything a question may take its words from."""
        anomalies = self._store.knowledge.anomalies(investigation_id=case.id)
        found = " ".join(f"{each.kind} {each.statement} {' '.join(each.series)}" for each in anomalies)
        return f"{case.run_id} {case.title} {case.statement} {found}"

    def statistic(self, asked: Asked, run_id: str) -> str:
        """The statistic of the run that the question names, most specific first; "" for none."""
        asked_words = set(words(asked.topic))
        known = {SeriesName.parse(name).statistic for name in self._store.series.names(run_id)}
        named = [each for each in known if set(words(each)) <= asked_words and words(each)]
        return max(sorted(named), key=lambda each: len(words(each)), default="")

    def names(self, asked: Asked, run_id: str) -> list[str]:
        """Series of the run that the question names: written out, or a statistic of the whole model."""
        known = self._store.series.names(run_id)
        written = [name for name in known if "/" in name and name in asked.text]
        statistic = self.statistic(asked, run_id)
        return written or [name for name in known if name == statistic]

    def anomalies(self, asked: Asked, run_id: str) -> list[Anomaly]:
        """Those of the run that the question fits; all when it names no quantity."""
        known = self._store.knowledge.anomalies(run_id)
        statistic = self.statistic(asked, run_id)
        if not statistic:
            return known if self._is_general(asked, run_id) else best(asked.topic, known, _anomaly_text, limit=5)
        return [each for each in known if any(SeriesName.parse(name).statistic == statistic for name in each.series)]

    def _is_general(self, asked: Asked, run_id: str) -> bool:
        """True when the question names no quantity and no other thing than the run and that something is wrong."""
        return not self.statistic(asked, run_id) and not set(words(asked.topic)) - _GENERAL


_GENERAL = frozenset(
    words(
        "wrong bad broken anomaly anomalies incident issue problem fail failed failing failure diverge diverged cause "
        "caused causes reason explain found find change changed changes layer layers expert experts depart departs "
        "status case verdict step steps value when begin began start started onset spike spiked rise drop fix fixed "
        "first last new commit code config culprit responsible investigate investigation healthy going doing model"
    )
)


def _anomaly_text(each: Anomaly) -> str:
    return f"{each.kind} {each.statement} {' '.join(each.series)}"


def plots(store: Store, anomalies: Sequence[Anomaly], limit: int = 2) -> list[Card]:
    """A plot of each anomaly's first series around its onset, with what changed as markers."""
    cards = []
    for each in [each for each in anomalies if each.series][:limit]:
        lo, hi = each.onset
        width = max(_MIN_WINDOW, _MARGIN * (hi - lo))
        cards.append(plot(store, each.run_id, each.series[0], max(0, lo - width), hi + width, each.onset))
    return cards


def plot(store: Store, run_id: str, name: str, lo: int, hi: int, onset: tuple[int, int] | None = None) -> Card:
    """A plot of one series with change markers."""
    kinds = [kind for kind in TimelineKind if kind not in (TimelineKind.CHECKPOINT, TimelineKind.EVAL)]
    events = store.timeline.list(run_id, lo, hi, kinds)
    return Card(
        kind=CardKind.SERIES,
        title=f"{name} of {run_id}",
        evidence=evidence.series(run_id, name, lo, hi),
        detail={
            "run_id": run_id,
            "name": name,
            "lo": lo,
            "hi": hi,
            "onset": list(onset or ()),
            "markers": [{"step": each.step, "title": each.title} for each in events],
        },
    )
