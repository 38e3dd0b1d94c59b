"""Questions about what was measured, configured and evaluated: values, places that depart."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from agents import evidence
from agents.chat.answer import Answer, from_rows, unknown
from agents.chat.places import ChatContext, is_at
from agents.chat.questions import Asked
from agents.chat.sources import NO_RUN, Sources
from agents.tools import Row
from agents.tools.evals import score_row
from agents.tools.knowledge import anomaly_row
from agents.tools.matching import best
from agents.tools.protocol import row
from agents.tools.series import departures, number

_WINDOW = 50
_DEPARTS = 6.0  # spreads of its own past
_AGAINST_OTHERS = 3.0  # and so many times the typical place
_MAX_SERIES = 8
_LEAST = r"\b(lowest|minim\w+|smallest|best)\b"
_MOST = r"\b(highest|maxim\w+|largest|peak|worst)\b"
_BOTH_SIDES = r"\bbefore and (?:\w+ ){0,2}after\b"


class Measured:
    def __init__(self, sources: Sources) -> None:
        self._from = sources

    def value(self, asked: Asked, context: ChatContext) -> Answer:
        """Of series, else of fields of the configuration, else scores; of each run that is named."""
        runs = list(dict.fromkeys(each.partition("#")[0] for each in asked.runs))
        if not runs and (meant := self._from.places.run(asked, context)):
            runs = [meant]
        if not runs:
            return unknown(NO_RUN)
        for run_id in runs:
            if missing := self._from.ends(run_id, asked):
                return unknown(missing)
        answers = [each for each in (self._of_run(asked, run_id) for run_id in runs) if each.known]
        if not answers:
            return unknown(f"nothing of that name was measured or configured in run {', '.join(runs)}")
        statements = tuple(each for answer in answers for each in answer.statements)
        return Answer(statements=statements)

    def named(self, asked: Asked, run_id: str) -> tuple[Row, ...]:
        """Points of the series whose name the question holds, whatever else it speaks of."""
        found = [self._points(asked, run_id, name) for name in self._from.places.names(asked, run_id)[:1]]
        return found[0] if found else ()

    def _of_run(self, asked: Asked, run_id: str) -> Answer:
        names = self._from.places.names(asked, run_id)[:_MAX_SERIES]
        if names and not self._from.places.says_more(asked, names):
            rows = [each for name in names for each in self._points(asked, run_id, name)]
            rows += [row(each.text, *each.evidence) for each in self.configured(asked, run_id).statements]
            return from_rows(rows, "")
        fields = self.configured(asked, run_id)
        if fields.known:
            return fields
        scores = self._from.store.evals.list(run_id=run_id)
        fitting = best(
            asked.topic, scores, lambda each: f"{each.benchmark} {each.metric}", limit=_MAX_SERIES, min_share=0.5
        )
        return from_rows(map(score_row, fitting), "no such score is stored")

    def configured(self, asked: Asked, run_id: str) -> Answer:
        """Fields in force, after how they had changed."""
        step = max(asked.steps) if asked.steps else None
        fields = self._from.rows("configuration", run_id=run_id, text=asked.rest or "-", step=step)
        keys = {ref.id for each in fields for ref in each.evidence}
        changes = [
            each
            for each in self._from.rows("timeline", run_id=run_id)
            if any(ref.kind == "config" and ref.id in keys for ref in each.evidence)
        ]
        return from_rows([*fields, *changes], f"no field of run {run_id} is called so")

    def _points(self, asked: Asked, run_id: str, name: str) -> tuple[Row, ...]:
        last = self._from.store.runs.get(run_id).last_step
        steps = list(asked.steps)
        if steps and asked.says(_BOTH_SIDES):
            steps = [max(0, steps[0] - 1), steps[0] + 1]
        if not steps and (asked.says(_LEAST) or asked.says(_MOST)):
            return self._extreme(run_id, name, asked.says(_LEAST))
        lo, hi = (min(steps), max(steps)) if steps else (last, last)
        if lo != hi and not re.search(r"\b(between|from|over|until|to)\b|-", asked.text):
            return tuple(each for step in (lo, hi) for each in self._window(run_id, name, step, step))
        return self._window(run_id, name, lo, hi)

    def _window(self, run_id: str, name: str, lo: int, hi: int) -> tuple[Row, ...]:
        return self._from.rows("series_window", run_id=run_id, name=name, lo=lo, hi=hi)

    def _extreme(self, run_id: str, name: str, least: bool) -> tuple[Row, ...]:
        data = self._from.store.series.read(run_id, name)
        finite = np.flatnonzero(np.isfinite(data.values))
        if not len(finite):
            return ()
        at = finite[(np.argmin if least else np.argmax)(data.values[finite])]
        step, word = int(data.steps[at]), "lowest" if least else "highest"
        text = f"the {word} {name} of run {run_id} is {number(float(data.values[at]))}, at step {step}"
        return (row(text, evidence.series(run_id, name, step, step)),)

    def trend(self, asked: Asked, context: ChatContext) -> Answer:
        """What was found about a quantity, else how it moved when something else was found, else where it went."""
        run_id = self._from.places.run(asked, context)
        moved = replace(asked, rest=asked.mover)
        names = self._from.places.names(moved, run_id)[:_MAX_SERIES] if run_id else []
        if run_id is None or not names:
            return unknown("no quantity of that name was measured")
        found = [each for each in self._from.places.anomalies(moved, run_id) if set(each.series) & set(names)]
        rows = [*map(anomaly_row, found)]
        for each in self._from.store.knowledge.anomalies(run_id)[:1] if not found else ():
            along = self.moved_with(run_id, names, each.onset[0])
            rows += [*along, anomaly_row(each)] if along else []
        whole = [self._whole(run_id, name) for name in names[:3]]
        return from_rows([*rows, *(each for each in whole if each)], "")

    def _whole(self, run_id: str, name: str) -> Row | None:
        """Where a series began and ended, and whether it is part of what was found."""
        data = self._from.store.series.read(run_id, name)
        if not len(data.steps):
            return None
        a, b = int(data.steps[0]), int(data.steps[-1])
        part = any(name in each.series for each in self._from.store.knowledge.anomalies(run_id))
        said = "is part of an anomaly" if part else "is no anomaly"
        first, last = number(float(data.values[0])), number(float(data.values[-1]))
        text = f"{name} of run {run_id} {said}: {first} at step {a}, {last} at step {b}"
        return row(text, evidence.series(run_id, name, a, b))

    def departs(self, asked: Asked, context: ChatContext) -> Answer:
        """Places that leave their own past and the others; "none does" is an answer too."""
        run_id = self._from.places.run(asked, context)
        if run_id is None:
            return unknown(NO_RUN)
        known = self._from.places.anomalies(asked, run_id)
        statistic = self._from.places.statistic(asked, run_id)
        if statistic and asked.steps:
            return self._across(run_id, statistic, asked.steps[0])
        gap = f"no departure is stored for run {run_id}"
        if (asked.layers or asked.experts) and not known:
            return self._untouched(asked, run_id, statistic) or unknown(gap)
        return from_rows(map(anomaly_row, known), gap)

    def _untouched(self, asked: Asked, run_id: str, statistic: str) -> Answer | None:
        """That no anomaly holds this place, where it was measured and the question names nothing else."""
        measured = [name for name in self._from.store.series.names(run_id) if is_at(name, asked)]
        if not measured or not (statistic or self._from.places.is_general(asked)):
            return None
        last = self._from.store.runs.get(run_id).last_step
        ref = evidence.series(run_id, measured[0], 0, last)
        return from_rows([row(f"no anomaly of run {run_id} is at that place, which was measured", ref)], "")

    def _across(self, run_id: str, statistic: str, since: int) -> Answer:
        matrix = self._from.store.series.across(run_id, statistic, since - _WINDOW, since + _WINDOW)
        if not len(matrix.steps):
            return unknown(f"run {run_id} has no '{statistic}' around step {since}")
        score = departures(matrix, since)[1]
        typical = np.nanpercentile(score, 50, method="lower") if np.isfinite(score).any() else 0.0
        far = np.flatnonzero(score >= max(_DEPARTS, _AGAINST_OTHERS * typical)).tolist()
        if not far:
            ref = evidence.series(run_id, matrix.names[0], max(0, since - _WINDOW), since + _WINDOW)
            return from_rows([row(f"no place of {statistic} departs at step {since} in run {run_id}", ref)], "")
        leading = self._from.toolbox.call(
            "statistic_across", {"run_id": run_id, "statistic": statistic, "since": since}
        )
        return from_rows(leading.rows[: len(far)], "")

    def moved_with(self, run_id: str, names: list[str], onset: int) -> list[Row]:
        """Series that leave their own past at the onset of something else."""
        rows = []
        for name in names:
            matrix = self._from.store.series.matrix(run_id, [name], max(0, onset - _WINDOW), onset + _WINDOW)
            if not len(matrix.steps):
                continue
            shift, score = departures(matrix, onset)
            if score[0] >= _DEPARTS:
                way = "rises" if shift[0] > 0 else "falls"
                size = f"{number(abs(shift[0]))} ({score[0]:.0f} times its spread)"
                text = f"{name} {way} by {size} at step {onset}, where what follows begins"
                rows.append(row(text, evidence.series(run_id, name, max(0, onset - _WINDOW), onset + _WINDOW)))
        return rows
