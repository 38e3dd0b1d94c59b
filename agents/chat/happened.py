"""Questions about what happened: changes, commits, comparisons, and when."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from agents import evidence
from agents.chat.answer import Answer, from_result, from_rows, unknown
from agents.chat.places import ChatContext
from agents.chat.questions import Asked
from agents.chat.sources import NO_RUN, Sources
from agents.tools import Row, ToolResult
from agents.tools.changes import commit_row, find_commit
from agents.tools.knowledge import anomaly_row, run_row, suspect_row
from agents.tools.matching import best, words
from agents.tools.protocol import row
from contracts.errors import RepositoryError, UserInputError

_MAX_EVENTS, _MAX_COMMITS = 5, 10
_TWO, _MAX_COMPARED = 2, 6
_JUST_AT = r"\bat (?:\w+ ){0,3}(?:step|iteration)\b|\bresum\w+\b.*\bat\b"
_LATER = r"\b(?:after|since|from)\b"
_EVENTS = frozenset(
    words(
        "resume resumed approve approved checkpoint force came come in into data mixture code config configuration "
        "change changed commit merged applied effect start started begin began"
    )
)
_AROUND = _EVENTS - set(words("data mixture")) | set(
    words(
        "field fields setting settings hyperparameter hyperparameters parameter parameters right just directly between "
        "segment segments thing things exactly second third time times switch switched set"
    )
)
_OF_EVENTS = r"\b(?:resum\w*|restart\w*|approv\w*|checkpoint\w*|force|chang\w+|merg\w+|appl\w+|commit\w*|revert\w*)\b"


class Happened:
    def __init__(self, sources: Sources) -> None:
        self._from = sources

    def changed(self, asked: Asked, context: ChatContext) -> Answer:
        """Before, at, after or between the steps named, else before the onset of what was found; newest first."""
        if len(asked.runs) > 1:
            return self.compare(asked, context)
        run_id = self._from.places.run(asked, context)
        if run_id is None:
            return unknown(NO_RUN)
        if missing := self._from.ends(run_id, asked):
            return unknown(missing)
        found = self._from.places.anomalies(asked, run_id) or self._from.store.knowledge.anomalies(run_id)
        since, until, where = _window(asked, found[0].onset[1] if found else None)
        events = self._from.rows("timeline", run_id=run_id, lo=since, hi=until)
        commits = self._from.rows("commits", run_id=run_id, upto_step=until)
        if since is not None and since == until:
            commits = tuple(each for each in commits if each.text.startswith(f"from step {since} on"))
        rows = [*events[:_MAX_EVENTS], *commits[:_MAX_COMMITS]]
        if self._is_about_something(asked, run_id):
            rows = best(asked.topic, [*events, *commits], lambda each: each.text, limit=_MAX_COMMITS, min_share=0.5)
        return from_rows(rows, f"nothing is recorded to have changed in run {run_id} {where}")

    def _is_about_something(self, asked: Asked, run_id: str) -> bool:
        """True when what changed is asked of a thing that no finding of the run is about."""
        if self._from.places.statistic(asked, run_id) or (asked.leading and asked.steps):
            return False
        meant = set(words(asked.topic)) - _AROUND
        known = self._from.places.anomalies(asked, run_id) or self._from.places.cases(asked, ChatContext(run_id=run_id))
        return bool(meant) and not known and not self._from.places.is_general(asked)

    def commit(self, asked: Asked, context: ChatContext) -> Answer:
        """Who wrote it and what it changes, and what came of it where it was suspected."""
        for project in self._from.store.projects.list():
            try:
                found = find_commit(self._from.store, project.id, asked.commit)
            except UserInputError:
                continue
            hunks = self._from.rows("hunks", project_id=project.id, commit=found)
            own = commit_row(self._from.store.code.commit(project.id, found))
            return from_rows([*hunks[:4], own, *self.suspected(found)], "")
        return unknown(f"no project has one commit '{asked.commit}'")

    def suspected(self, commit: str) -> list[Row]:
        """The commit as a suspect of every case."""
        knowledge = self._from.store.knowledge
        known = [each for case in knowledge.investigations() for each in knowledge.suspects(case.id)]
        return [suspect_row(each) for each in known if commit in each.commits]

    def history(self, asked: Asked, context: ChatContext) -> Answer:
        """Commits by author, path or words; on the culprit of a case when nothing else is named."""
        if asked.commit:
            return self.commit(asked, context)
        found = self._from.toolbox.call("find_commits", {"text": asked.text})
        if found.rows and asked.says(r"\b(?:lines?|diff|hunks?|code)\b"):
            return self._lines(found, asked, context)
        if found.rows or not self._from.places.is_general(asked, whole=True):
            return from_result(found)
        cases = self._from.places.cases(asked, context)
        return from_rows([each for case in cases[:1] for each in self.culprits(case.id)], found.nothing)

    def _lines(self, found: ToolResult, asked: Asked, context: ChatContext) -> Answer:
        """What the commits found change, those first that a verdict names."""
        proven = {
            ref
            for case in self._from.places.cases(asked, context)
            for c in self.culprits(case.id)
            for ref in c.evidence
        }
        ordered = sorted(found.rows, key=lambda each: not proven & set(each.evidence))
        shown = []
        for each in ordered[:3]:
            answer = self.commit(replace(asked, commit=each.evidence[0].id), context)
            shown += [row(s.text, *s.evidence) for s in answer.statements]
        return from_rows(shown, found.nothing)

    def culprits(self, case_id: str) -> list[Row]:
        """Commits that a verdict of the case names, with who wrote them."""
        store = self._from.store
        keys = [key for verdict in store.knowledge.verdicts(case_id) for key in verdict.suspect_keys]
        project_id = store.knowledge.investigation(case_id).project_id
        hashes = dict.fromkeys(key.removeprefix("commit:") for key in keys if key.startswith("commit:"))
        rows = []
        for each in hashes:
            with suppress(RepositoryError):  # a history that is not stored any more
                rows.append(commit_row(store.code.commit(project_id, each)))
        return rows

    def compare(self, asked: Asked, context: ChatContext) -> Answer:
        """Runs, or segments of one: each with the first, and how far each came."""
        runs = list(dict.fromkeys([*([context.run_id] if context.run_id and len(asked.runs) < 2 else []), *asked.runs]))
        if len(asked.segments) > 1:
            run_id = self._from.places.run(asked, context)
            runs = [f"{run_id}#{number}" for number in asked.segments[:2]] if run_id else []
        if len(runs) < 2:
            return unknown("a comparison needs two runs or segments (RUN or RUN#SEGMENT) by name")
        several = len(runs) > _TWO
        rows = [each for other in runs[1:_MAX_COMPARED] for each in self._differences(runs[0], other, told=several)]
        names = list(dict.fromkeys(each.partition("#")[0] for each in runs))
        return from_rows([*(run_row(self._from.store.runs.get(each)) for each in names), *rows], "")

    def _differences(self, first: str, other: str, *, told: bool) -> list[Row]:
        """`told`: each row names the pair."""
        found = self._from.toolbox.call("config_diff", {"before": first, "after": other})
        refs = [evidence.run(each.partition("#")[0]) for each in (first, other)]
        rows = list(found.rows) or [row(f"no difference: {found.nothing}", *refs)]
        return [row(f"{first} -> {other}: {each.text}", *each.evidence) for each in rows] if told else rows

    def when(self, asked: Asked, context: ChatContext) -> Answer:
        """Of an anomaly, or of an entry of the timeline."""
        run_id = self._from.places.run(asked, context)
        if run_id is None:
            return unknown(NO_RUN)
        if asked.says(_OF_EVENTS) and (rows := self._entries(asked, run_id)):
            return from_rows(rows, "")
        found = self._from.places.anomalies(asked, run_id)
        return from_rows(map(anomaly_row, found), f"no such anomaly is stored for run {run_id}")

    def _entries(self, asked: Asked, run_id: str) -> list[Row]:
        """Commits by hash, else entries that share the words of the question."""
        commits = self._from.rows("commits", run_id=run_id)
        if asked.commit:
            return [c for c in commits if any(ref.id.startswith(asked.commit.lower()) for ref in c.evidence)]
        events = self._from.rows("timeline", run_id=run_id)
        about = " ".join(set(words(asked.text)) - set(words(run_id)))
        foreign = not set(words(about)) <= _EVENTS
        return best(about, [*events, *commits], lambda each: each.text, limit=4, min_share=0.5 if foreign else 0.2)


def _window(asked: Asked, onset: int | None) -> tuple[int | None, int | None, str]:
    """First and last step that are meant, and in words."""
    if len(asked.steps) > 1:
        return min(asked.steps), max(asked.steps), f"between steps {min(asked.steps)} and {max(asked.steps)}"
    if not asked.steps:
        return None, onset, f"before step {onset}" if onset is not None else "so far"
    (step,) = asked.steps
    if asked.says(r"\b(?:before|until|prior|up to)\b"):
        return None, step, f"before step {step}"
    if asked.says(_JUST_AT):
        return step, step, f"at step {step}"
    if asked.says(_LATER):
        return step, None, f"from step {step} on"
    return None, step, f"before step {step}"
