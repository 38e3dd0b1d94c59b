"""What a question is about in the store: which run, which case, which series."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from agents.chat.forms import Kind
from agents.chat.prototypes import PROTOTYPES
from agents.chat.questions import Asked
from agents.tools.configuration import fields_of
from agents.tools.matching import MIN_SHARE, best, words
from context_store import Store
from context_store.records import Anomaly, Investigation
from context_store.records.search import SearchFilter, TextKind
from context_store.vocabulary import meanings
from contracts.enums import RunRole
from contracts.names import SeriesName

_MAX_RUNS = 500


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
        """The run meant: the named one, that of the page, the only training, that of the case the words fit, or the
        only one in which something was found. None also for a case that is about no run.
        """
        if asked.runs:
            return asked.runs[0].partition("#")[0]
        if context.investigation_id:
            return self._store.knowledge.investigation(context.investigation_id).run_id or None
        if context.run_id:
            return context.run_id
        trainings = self._store.runs.list(role=RunRole.TRAINING, limit=2)
        if len(trainings) == 1:
            return trainings[0].id
        cases = self.cases(asked, context)
        return (cases[0].run_id or None) if cases else self._only_one_with_a_case()

    def cases(self, asked: Asked, context: ChatContext, *, min_share: float = MIN_SHARE) -> list[Investigation]:
        """Cases that the question's words fit, best first; on a page of a run or case, or with a run named, of that.

        A general question is about the case of the run, or the only one there is.
        """
        if context.investigation_id and not asked.runs:
            return [self._store.knowledge.investigation(context.investigation_id)]
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        known = self._store.knowledge.investigations(run_id=run_id)
        about = run_id or self._only_one_with_a_case()
        if about and (asked.layers or asked.experts or self.statistic(asked, about)):
            measured = {each.id for each in self.anomalies(asked, about)}
            return [case for case in known if measured & set(case.anomaly_ids)]
        fitting = self.like(asked, known, min_share=min_share)
        if fitting or not about:
            return fitting
        only = asked.leading and len(known := self._store.knowledge.investigations(run_id=about)) == 1
        return known if only or self.is_general(asked) else []

    def like(
        self, asked: Asked, cases: Sequence[Investigation], *, limit: int = 5, min_share: float = MIN_SHARE
    ) -> list[Investigation]:
        """Cases that share the question's words, best first, and not only words like "rises" or "wrong"."""
        telling = set(words(asked.topic)) - _GENERAL
        found = best(asked.topic, cases, self.title_text, limit=limit, min_share=min_share)
        found = found or best(asked.topic, cases, self.case_text, limit=limit, min_share=_WIDER * min_share)
        fitting = [
            case
            for case in found
            if not (telling and not telling & set(words(self.case_text(case)))) and not self.lacks_focus(asked, case)
        ]
        return fitting or (self._by_meaning(asked, cases)[:limit] if telling else [])

    def _by_meaning(self, asked: Asked, cases: Sequence[Investigation]) -> list[Investigation]:
        """Cases whose finding means about what the question says: very nearly, or nearly and with a word in common."""
        known = {case.id: case for case in cases}
        chosen = SearchFilter(kinds=(TextKind.INVESTIGATION,))
        near = self._store.search.nearest(asked.text, chosen, limit=_MAX_NEAR) if known else []
        telling = set(words(asked.text)) - _GENERAL
        least = _NEAR if len(telling) >= _MANY_WORDS else _NEARER
        found = []
        for hit in near:
            case = known.get(hit.reference.id)
            if case is None or (hit.similarity or 0.0) < least:
                continue
            text = self.case_text(case)
            in_common = bool(telling & set(words(text)))
            if (in_common or (hit.similarity or 0.0) >= _VERY_NEAR) and not self.is_elsewhere(asked, text):
                found.append(case)
        return found

    def is_elsewhere(self, asked: Asked, text: str, also: str = "") -> bool:
        """True when the question is about a thing, or names one, of which `text` says nothing."""
        return self.is_foreign(asked, text, also) or bool(foreign_names(asked.rest, text))

    def title_text(self, case: Investigation) -> str:
        """What a case is called, and what was found."""
        anomalies = self._store.knowledge.anomalies(investigation_id=case.id)
        found = " ".join(f"{each.kind} {each.statement} {' '.join(each.series)}" for each in anomalies)
        return f"{case.run_id} {case.title} {case.statement} {found}"

    def case_text(self, case: Investigation) -> str:
        """Everything a question may take its words from."""
        tried = " ".join(f"{each.intervention} {each.reason}" for each in self._store.negatives.list(case.id))
        return f"{self.title_text(case)} {tried} {self._told(case.run_id)}"

    def _told(self, run_id: str) -> str:
        """What changed in a run that has no steps of its own, as those of imported incidents."""
        if not run_id or self._store.runs.get(run_id).last_step:
            return ""
        return " ".join(each.title for each in self._store.timeline.list(run_id))

    def stored_of(self, run_id: str) -> str:
        """Names of all that a run measured, how it is configured, and what happened in it."""
        series = {SeriesName.parse(name).statistic for name in self._store.series.names(run_id)}
        fields = [key for segment in self._store.runs.segments(run_id)[-1:] for key in fields_of(self._store, segment)]
        events = [each.title for each in self._store.timeline.list(run_id)]
        return " ".join([run_id, *sorted(series), *fields, *events])

    def lacks_focus(self, asked: Asked, case: Investigation) -> bool:
        """True when the case says nothing of the very thing that the question is about."""
        return self.is_foreign(asked, self.case_text(case))

    def is_foreign(self, asked: Asked, text: str, also: str = "") -> bool:
        """True when the question has a focus (or `also`) that `text` does not speak of."""
        there = set(words(text))
        for phrase in (asked.focus, also):
            focus = set(words(phrase)) - _GENERAL - _OF_VALUES - _NO_FOCUS
            if focus and len(focus & there) < _LEAST_OF_FOCUS * len(focus):
                return True
        return False

    def statistic(self, asked: Asked, run_id: str) -> str:
        """The statistic of the run that the question names, most specific first; "" for none.

        A loss of validation is not the loss: what qualifies the quantity has to stand in its name.
        """
        asked_words = set(words(asked.rest))
        known = {SeriesName.parse(name).statistic for name in self._store.series.names(run_id)}
        named = [each for each in known if set(words(each)) <= asked_words and words(each)]
        found = max(sorted(named), key=lambda each: len(words(each)), default="")
        return "" if (asked_words & _QUALIFIERS) - set(words(found)) else found

    def names(self, asked: Asked, run_id: str) -> list[str]:
        """Series of the run that the question names: written out, else a statistic, at the places it names."""
        known = self._store.series.names(run_id)
        written = [name for name in known if "/" in name and name in asked.text]
        statistic = self.statistic(asked, run_id)
        if written or not statistic:
            return written
        own = [name for name in known if SeriesName.parse(name).statistic == statistic]
        if asked.layers or asked.experts:
            return [name for name in own if is_at(name, asked)]
        about = set(words(asked.rest)) - set(words(statistic))
        placed = [(len(about & _place(name, statistic)), name) for name in own]
        most = max(placed)[0]
        whole = [statistic] if statistic in own else own
        return [name for count, name in placed if count == most] if most else whole

    def anomalies(self, asked: Asked, run_id: str) -> list[Anomaly]:
        """Those of the run that the question fits; all when it names no quantity."""
        known = self._store.knowledge.anomalies(run_id)
        statistic = self.statistic(asked, run_id)
        if asked.layers or asked.experts:
            known = [each for each in known if any(is_at(name, asked) for name in each.series)]
        if not statistic:
            return (
                known if self.is_general(asked) or asked.leading else best(asked.topic, known, _anomaly_text, limit=5)
            )
        return [each for each in known if any(SeriesName.parse(name).statistic == statistic for name in each.series)]

    def is_general(self, asked: Asked, *, whole: bool = False) -> bool:
        """True when the question names no other thing than that something is wrong, or was done about it.

        `whole`: also the words by which its kind was told count.
        """
        return not set(words(asked.rest if whole else asked.topic)) - _GENERAL

    def says_more(self, asked: Asked, names: Sequence[str]) -> bool:
        """True when a question about a value speaks of something that none of the series is called."""
        called = {word for name in names for word in words(name)}
        return bool(set(words(asked.rest)) - called - _GENERAL - _OF_VALUES)

    def _only_one_with_a_case(self) -> str | None:
        runs = {case.run_id for case in self._store.knowledge.investigations() if case.run_id}
        return runs.pop() if len(runs) == 1 else None


def telling(asked: Asked) -> set[str]:
    """Words of a question that name a thing: not those by which people ask, nor adverbs."""
    return set(words(_ADVERB.sub(" ", asked.rest))) - _GENERAL - _OF_VALUES - _SPOKEN


def general() -> frozenset[str]:
    """Words that name no thing."""
    return _GENERAL | _OF_VALUES


def lacks_quality(asked: Asked, there: Set[str]) -> bool:
    """True when the question qualifies a quantity (validation, perplexity ...) in a way that is not among `there`."""
    return bool((set(words(asked.rest)) & _QUALIFIERS) - there)


def foreign_names(question: str, text: str) -> list[str]:
    """Names in the question (`B200`, `FlashAttention`, `MMLU`) that `text` has in no words."""
    there = set(words(f"{text} {meanings(text)}"))
    named = (match[0] for match in _NAME.finditer(question))
    return [each for each in named if (told := set(words(each)) - _COMMON_NAMES) and not told & there]


def is_at(name: str, asked: Asked) -> bool:
    """True for a series of a layer and an expert that the question numbers."""
    layers = [int(n) for n in _LAYER.findall(name)]
    experts = [int(n) for n in _EXPERT.findall(name)]
    return all(
        not wanted or (bool(there) and set(there) <= set(wanted))
        for wanted, there in ((asked.layers, layers), (asked.experts, experts))
    )


def _place(name: str, statistic: str) -> set[str]:
    """Words of the place in a series' name: `lr/group.router` is at the router."""
    return {word for word in words(name.removeprefix(statistic)) if not word.isdigit()} - _PLACES


_LAYER, _EXPERT = re.compile(r"layers\.(\d+)"), re.compile(r"experts\.(\d+)")
_PLACES = frozenset(words("group source layers experts"))
_QUALIFIERS = frozenset(words("validation eval test val held reward perplexity dev bleu mmlu accuracy memory gpu"))
_NAME = re.compile(
    r"\b(?:(?=\w*[A-Z])(?=\w*\d)[\w-]+|[A-Z]{2,}s?\b(?:-\w+)?|\w*[a-z][A-Z]\w*)(?![\w/])"
)  # capitals with digits, acronyms, capitals within a word
_COMMON_NAMES = frozenset(words("GPU GPUs CPU LLM MoE LR AI ML OK API FYI BTW TL DR NOT"))
_MAX_NEAR = 5
_MANY_WORDS = 8  # a question of fewer may be near by chance
_NEAR, _NEARER, _VERY_NEAR = 0.45, 0.55, 0.6  # cosines
_ADVERB = re.compile(r"\b\w+ly\b", re.IGNORECASE)
_SPOKEN = frozenset(
    word for kind, texts in PROTOTYPES.items() if kind is not Kind.OTHER for text in texts for word in words(text)
)
_MOST_UNTOLD = 0.6  # of the words of a question may be other words than those of its answer
_WIDER = 1.5  # more of a question has to stand in what is told around a case
_LEAST_OF_FOCUS = 0.5
_NO_FOCUS = frozenset(
    words(
        "commit curve metric series quantity signal symptom number version job run model person change incident "
        "thing kind way settings setting field optimizer against people training time line lines file else"
    )
)
_OF_VALUES = frozenset(
    words(
        "value values high low large big small fast slow highest lowest maximum minimum max min peak largest "
        "smallest best worst rough roughly final initial latest plot curve graph per average mean "
        "median typical total entire layer layers expert experts group measured reported logged recorded log before "
        "after between finally until end reach reached get got level set setting source data part share resume restarts"
    )
)
_GENERAL = frozenset(
    words(
        "thing things stuff wrong bad "
        "broken anomaly anomalies incident issue problem fail failed failing failure diverge diverged "
        "cause caused causes reason explain found find change changed changes layer layers expert experts depart "
        "departs status case verdict step steps value when begin began start started onset spike spiked rise drop "
        "fix fixed first last new commit code config culprit responsible investigate investigation healthy going "
        "doing model rerun replay placebo control evidence proof prove proven proved reproduce reproduces "
        "reproducible overturn sure certain confident verdicts seed seeds fresh other different num size affected "
        "broke break breaks blame fault trouble summary summarize summarise approve approved approval proposal "
        "proposed decide decided decision reject rejected who whom author wrote person people work worked working "
        "works helped help risk verify verified known show shows shown tell whole everything anything something "
        "story result results recover recovered resolve resolved solve solved repair repaired open pending wait "
        "waits waiting need needed suspect suspects guilty innocent ruled rule excluded exclude tested test tests "
        "examined main look looked many much long took during happen happened happening occur occurred appear "
        "appeared notice noticed detect detected departed turn turned out blow crazy go goes went gone carry sign "
        "jump jumped fluke scratch good put top add harmless left end exactly same numbers random chance "
        "coincidence rollback revert normal ok again get few them most all cases cure cured anybody others line "
        "lines touched touch diff hunk way really actually far still now currently today back used use"
    )
)


def _anomaly_text(each: Anomaly) -> str:
    return f"{each.kind} {each.statement} {' '.join(each.series)}"
