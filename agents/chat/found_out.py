"""Questions about what was found out: causes, what was ruled out or tried, fixes, how sure it is, what is alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agents import evidence
from agents.chat.answer import Answer, from_rows, unknown
from agents.chat.happened import Happened
from agents.chat.measured import Measured
from agents.chat.places import ChatContext, general
from agents.chat.questions import Asked
from agents.chat.sources import Sources
from agents.tools import Row
from agents.tools.knowledge import (
    anomaly_row,
    case_row,
    diagnostic_row,
    like_negatives,
    negative_row,
    overturn_row,
    proposal_row,
    suspect_row,
    verdict_row,
)
from agents.tools.matching import best, words
from agents.tools.protocol import row
from context_store.records import Diagnostic, Investigation, NegativeResult, Suspect, VerdictRecord
from contracts.enums import CauseKind, DiagnosticKind, Verdict

_MAX_STATEMENTS = 8
_MAX_RERUNS = 6
_MAX_CASES = 12
_MAX_LOOP_CASES, _MAX_TRIED = 3, 5
_MAX_LINES = 1000  # characters
_FITS_WELL = 0.6  # share of a question's weight that a case holds which answers for a suspect nobody examined


_KINDS: Mapping[str, str] = {
    DiagnosticKind.REPLAY: r"\b(?:replay\w*|same code|exactly the same|same numbers|bitwise|\brun\b.*\bagain)\b",
    DiagnosticKind.CONTROL: r"\b(?:control|last good|old code|baseline)\b",
    DiagnosticKind.PLACEBO: r"\b(?:placebo|(?:innocent|harmless|unrelated) (?:change|commit))\b",
    DiagnosticKind.ADD: r"\b(?:on top of|(?:put|add\w*|appl\w+|only|alone)\b.*\bgood code|added? (?:it )?alone)\b",
    DiagnosticKind.REVERT: r"\b(?:(?:take|taking|taken|leave|leaving|left)\b.*\bout|without|revert\w*|remov\w+)\b",
    DiagnosticKind.FRESH_SEED: r"\b(?:seeds?|from scratch|fluke|random weights|by chance|coincidence)\b",
}  # how people call the kinds of re-runs


_SEVERAL = (
    r"\b(?:which|what|how many|list|show|all|any|name)\b(?: of)?(?: \w+){0,3} "
    r"(?:incidents|cases|failures|problems|runs|faults|bugs)\b"
)
_CAUSES: Mapping[CauseKind, str] = {
    CauseKind.HARDWARE: r"\b(?:hardware|broken (?:gpus?|nodes?|machines?)|bad (?:gpus?|nodes?|cards?|machines?))\b",
    CauseKind.CODE: r"\b(?:code|bugs?|software|programming|implementation)\b",
    CauseKind.CONFIG: r"\b(?:config\w*|hyper-?parameters?|settings?|recipes?)\b",
    CauseKind.DATA: r"\b(?:data|dataset|corpus|corpora)\b",
    CauseKind.RESUME: r"\b(?:resum\w+|restart\w*|checkpoint\w*)\b",
    CauseKind.ENVIRONMENT: r"\b(?:environment|librar\w+|drivers?|versions?)\b",
    CauseKind.MEASUREMENT: r"\b(?:measur\w+|logging|only (?:a |the )?numbers?|wrong(?:ly)? (?:counted|logged))\b",
}  # how people call the kinds of causes


_LOOPS: Mapping[str, str] = {
    "classifier": r"\b(?:classif\w+|labelling)\b",
    "evolve": r"\b(?:evol\w+|scaffolds?)\b",
    "potential": r"\bpotentials?\b",
    "recipe": r"\brecipes?\b",
}  # how people call the loops that look into no anomaly
_OUTCOME = (
    r"\b(?:f(?:ind|ound)|results?|outcome|come|came|learn\w*|conclu\w+|tried|try|kept|keep|propos\w+|verdict|end\w*)\b"
)


class FoundOut:
    def __init__(self, sources: Sources, measured: Measured, happened: Happened) -> None:
        self._from = sources
        self._measured = measured
        self._happened = happened

    def why(self, asked: Asked, context: ChatContext) -> Answer:
        """The verdicts of the case that fits, then what it rests on; without a case, what was seen."""
        if asked.commit and (suspected := self._happened.suspected(self._whole(asked.commit))):
            return from_rows(suspected, "")
        cases = self._from.places.cases(asked, context)
        if cases:
            return self._case(cases[0])
        run_id = self._from.places.run(asked, context)
        found = self._from.places.anomalies(asked, run_id) if run_id else []
        if not found and run_id and (answer := self._moved_with_a_case(asked, run_id)):
            return answer
        rows = [*map(anomaly_row, found)]
        if run_id and rows:
            rows.append(row(f"nobody has looked into it yet: ask to investigate {run_id}", evidence.run(run_id)))
            rows += [each for each in self._from.found_by("explain_onset", run_id=run_id) if each not in rows]
        return from_rows(rows, "no case and no anomaly fits these words")

    def _moved_with_a_case(self, asked: Asked, run_id: str) -> Answer | None:
        """For a quantity that has no anomaly of its own and moves at the onset of one that was looked into."""
        knowledge = self._from.store.knowledge
        names = self._from.places.names(asked, run_id)
        for case in knowledge.investigations(run_id=run_id):
            for anomaly in knowledge.anomalies(investigation_id=case.id)[:1]:
                onset = anomaly.onset[0]
                if asked.steps and not onset - 1 <= asked.steps[0] <= anomaly.onset[1] + 1:
                    continue
                if moved := self._measured.moved_with(run_id, names[:3], onset):
                    about = self._case(case)
                    first = from_rows(moved, "").statements
                    return Answer(statements=(*first, *about.statements)[:_MAX_STATEMENTS])
        return None

    def _case(self, case: Investigation) -> Answer:
        knowledge = self._from.store.knowledge
        anomalies = knowledge.anomalies(investigation_id=case.id)
        rows = [verdict_row(each) for each in _strongest_first(knowledge.verdicts(case.id))[:2]]
        rows = [*rows, case_row(case), *self._happened.culprits(case.id)[:2], *map(anomaly_row, anomalies[:2])]
        rows += [suspect_row(each) for each in knowledge.suspects(case.id)[:2]]
        return from_rows(rows, "")

    def proof(self, asked: Asked, context: ChatContext) -> Answer:
        """Verdicts, what would overturn them, and the re-runs that fit the words, else all."""
        cases = self._from.places.cases(asked, context)
        known = self._from.store.knowledge
        cases = cases or [c for c in known.investigations() if self._names_a_suspect(asked, c)]
        if not cases or not known.diagnostics(cases[0].id):
            return self.why(asked, context)
        case = cases[0]
        ordered = _strongest_first(known.verdicts(case.id))
        verdicts = [verdict_row(each) for each in ordered]
        doubts = [overturn_row(each) for each in ordered if each.would_overturn]
        reruns = known.diagnostics(case.id)
        text = f"{asked.rest} {asked.commit[:8]}"
        near = best(text, reruns, _told_of, limit=_MAX_RERUNS, min_share=0.25)
        by_kind = [each for each in reruns if asked.says(_KINDS.get(each.kind, each.kind))]
        shown = [diagnostic_row(each) for each in by_kind or near or reruns[:_MAX_RERUNS]][:_MAX_RERUNS]
        if asked.says(r"\boverturn"):
            return from_rows([*doubts, *verdicts], "")
        order = [*shown, *verdicts] if by_kind or near else [*verdicts, *shown]
        return from_rows([*order, *doubts][: _MAX_STATEMENTS + 2], "nothing was re-run")

    def _names_a_suspect(self, asked: Asked, case: Investigation) -> bool:
        suspects = self._from.store.knowledge.suspects(case.id)
        return bool(self._fitting(asked, suspects))

    def fix(self, asked: Asked, context: ChatContext) -> Answer:
        """Proposals of the case that fits, then how it ended, then the case."""
        cases = self._from.places.cases(asked, context) or self._of_a_measured_run(asked, context)
        if not cases:
            return unknown("no case fits these words")
        proposals = self._from.store.proposals.list(investigation_id=cases[0].id)
        about = self._case(cases[0])
        first = from_rows([*map(proposal_row, proposals), case_row(cases[0])], "").statements
        rest = [each for each in about.statements if each not in first]
        kept = first if proposals else about.statements[:1] + first
        return Answer(statements=tuple(dict.fromkeys((*kept, *rest)))[:_MAX_STATEMENTS])

    def _of_a_measured_run(self, asked: Asked, context: ChatContext) -> list[Investigation]:
        """Cases of the run in which the quantity asked for was measured, though it is no anomaly itself."""
        run_id = self._from.places.run(asked, context)
        if run_id is None or not self._from.places.names(asked, run_id):
            return []
        return self._from.store.knowledge.investigations(run_id=run_id)

    def why_not(self, asked: Asked, context: ChatContext) -> Answer:
        """Suspects and negative results that the words fit, with the reasons given."""
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        cases = self._from.store.knowledge.investigations(run_id=run_id)
        if context.investigation_id and not asked.runs:
            cases = [self._from.store.knowledge.investigation(context.investigation_id)]
        suspects = [each for case in cases for each in self._from.store.knowledge.suspects(case.id)]
        fitting = self._fitting(asked, suspects)
        about = asked.subject if words(asked.subject) else asked.topic
        ruled_out = self._from.rows("negative_results", text=about) if words(about) else ()
        rows = [*map(suspect_row, fitting), *ruled_out[:4]]
        if not fitting and (cases := self._from.places.cases(asked, context)) and words(asked.subject):
            known = self._from.store.negatives.list(cases[0].id)
            own = best(asked.subject, known, lambda each: f"{each.intervention} {each.reason}", limit=3)
            rows = [*map(negative_row, own), *(each for each in rows if each not in map(negative_row, own))]
        if rows:
            return from_rows(rows, "")
        if (self._from.places.is_general(asked) or asked.leading) and not asked.commit:
            return self._all_suspects(asked, context)
        whole = self._from.places.cases(asked, context, min_share=_FITS_WELL)
        if whole and not self._from.places.is_foreign(asked, self._from.places.case_text(whole[0]), asked.subject):
            return self._case(whole[0])
        return unknown("nothing of that kind was ever suspected, tested or ruled out")

    def _fitting(self, asked: Asked, suspects: list[Suspect]) -> list[Suspect]:
        if asked.commit:
            return [each for each in suspects if any(c.startswith(asked.commit.lower()) for c in each.commits)]
        about = asked.subject if words(asked.subject) else asked.topic
        return best(about, suspects, self._told_of_suspect, limit=3)

    def _told_of_suspect(self, each: Suspect) -> str:
        """Its name, who wrote it, and the lines that it changes."""
        store = self._from.store
        project_id = store.knowledge.investigation(each.investigation_id).project_id
        hunks = [hunk.text for commit in each.commits for hunk in store.code.hunks(project_id, commit)]
        return f"{each.key} {each.title} {' '.join(hunks)[:_MAX_LINES]}"

    def _all_suspects(self, asked: Asked, context: ChatContext) -> Answer:
        """Of the case that is meant: what was ruled out when that is asked, else the ranking."""
        cases = self._from.places.cases(asked, context)
        if not cases:
            return unknown("nothing of that kind was ever suspected, tested or ruled out")
        suspects = self._from.store.knowledge.suspects(cases[0].id)
        refuted = [each for each in suspects if each.status is Verdict.REFUTED]
        only_out = asked.says(r"\b(rul\w+|exclud\w*|innocent|not|exonerat\w*|refuted|wrong)\b")
        chosen = refuted if only_out else suspects
        return from_rows(map(suspect_row, chosen[:_MAX_STATEMENTS]), "nothing was suspected")

    def tried(self, asked: Asked, context: ChatContext) -> Answer:
        """What was tried, what the question names first; all of a case when it names only what it was tried against."""
        store = self._from.store
        cases = self._from.places.cases(asked, context)
        known = self._negatives(asked, cases)
        general = self._from.places.is_general(asked)
        examined = [] if general else [each for each in self._fitting(asked, self._suspects(cases)) if each.status]
        remembered = self._from.rows("remembered", text=asked.topic or "-")
        proposals = best(asked.topic, store.proposals.list(), lambda each: each.title, limit=2)
        rows = [*map(negative_row, known), *map(suspect_row, examined), *remembered[:2], *map(proposal_row, proposals)]
        told = " ".join([each.text for each in rows] + [self._from.places.case_text(case) for case in cases[:1]])
        if self._from.places.is_foreign(asked, told):
            return unknown(f"nothing stored says anything of '{asked.focus.strip()}'")
        if not known and cases and words(asked.subject):
            return self._case(cases[0])
        return from_rows(rows[: _MAX_STATEMENTS + 2], "nothing of that kind was tried before")

    def _negatives(self, asked: Asked, cases: list[Investigation]) -> list[NegativeResult]:
        """By what was tried, where the question says it; then by the whole question."""
        store = self._from.store
        own = [each for case in cases[:1] for each in store.negatives.list(case.id)]
        every = {each.id: each for each in (*like_negatives(store, asked.topic or "-"), *own)}
        tried = asked.subject if words(asked.subject) else asked.focus
        named = best(
            tried, list(every.values()), lambda each: f"{each.intervention} {each.reason}", limit=6, min_share=0.5
        )
        if words(asked.subject):
            return named
        if not words(asked.focus) and own:
            return own
        like = best(asked.rest, list(every.values()), self._told_of_negative, limit=6, min_share=0.25)
        return list({each.id: each for each in (*named, *like)}.values())

    def _told_of_negative(self, each: NegativeResult) -> str:
        return f"{each.claim} {each.intervention} {each.reason}"

    def _suspects(self, cases: list[Investigation]) -> list[Suspect]:
        every = cases or self._from.store.knowledge.investigations()
        return [each for case in every for each in self._from.store.knowledge.suspects(case.id)]

    def symptom(self, asked: Asked, context: ChatContext) -> Answer:
        """What was seen in the case that fits, or in the run."""
        cases = self._from.places.cases(asked, context)
        if not cases:
            return unknown("no case fits these words")
        anomalies = self._from.store.knowledge.anomalies(investigation_id=cases[0].id)
        rows = [*map(anomaly_row, anomalies), case_row(cases[0])]
        return from_rows(rows, "")

    def of_a_cause(self, asked: Asked) -> Answer | None:
        """Cases whose cause was of the kind that the question names; None when it asks for no such list."""
        forms = {kind: form for kind, form in _CAUSES.items() if asked.says(form)} if asked.says(_SEVERAL) else {}
        found = [each for each in self._from.store.knowledge.investigations() if each.cause_kind in forms]
        more = re.sub("|".join(forms.values()), " ", asked.rest, flags=re.IGNORECASE) if forms else ""
        if not forms or (not found and set(words(more)) - general()):
            return None
        return from_rows(map(case_row, found[:_MAX_CASES]), "no case has such a cause")

    def of_a_loop(self, asked: Asked, context: ChatContext) -> Answer | None:
        """What cases of a loop that is named came to, newest first; None where none is stored or more is asked."""
        loops = [loop for loop, form in _LOOPS.items() if asked.says(form)]
        if not loops or not asked.says(_OUTCOME) or context.investigation_id:
            return None
        run_id = asked.runs[0].partition("#")[0] if asked.runs else context.run_id or None
        cases = [each for each in self._from.store.knowledge.investigations(run_id=run_id) if each.loop in loops]
        more = set(words(re.sub(f"{_OUTCOME}|{'|'.join(_LOOPS[each] for each in loops)}", " ", asked.rest, flags=re.I)))
        if more := more - general() - set(words("loop loops")):
            cases = [each for each in cases if more <= set(words(self._from.places.case_text(each)))]
        rows = [each for case in cases[:_MAX_LOOP_CASES] for each in self._came_to(case)]
        return from_rows(rows, "") if rows else None

    def _came_to(self, case: Investigation) -> list[Row]:
        store = self._from.store
        verdicts = [verdict_row(each) for each in _strongest_first(store.knowledge.verdicts(case.id))[:2]]
        tried = [negative_row(each) for each in store.negatives.list(case.id)[:_MAX_TRIED]]
        return [
            case_row(case),
            *verdicts,
            *tried,
            *map(proposal_row, store.proposals.list(investigation_id=case.id)[-2:]),
        ]

    def similar(self, asked: Asked, context: ChatContext) -> Answer:
        store = self._from.store
        cases = self._from.places.like(asked, store.knowledge.investigations(), limit=3)
        negatives = self._from.rows("negative_results", text=asked.topic or "-")
        rows = [*map(case_row, cases), *negatives[:3]]
        return from_rows(rows, "nothing stored fits these words")

    def other(self, asked: Asked, context: ChatContext) -> Answer:
        """No form was recognised: what it names, else what fits its words."""
        if asked.commit:
            return self._happened.commit(asked, context)
        run_id = self._from.places.run(asked, context)
        if run_id and (missing := self._from.ends(run_id, asked)):
            return unknown(missing)
        if run_id and not self._from.places.is_general(asked):
            answer = self._measured.value(asked, context)
            if answer.known:
                return answer
        elif run_id and (cases := self._from.places.cases(asked, context)):
            return self._case(cases[0])
        found = self.similar(asked, context)
        remembered: tuple[Row, ...] = self._from.rows("remembered", text=asked.topic or "-")[:2]
        more = from_rows([*remembered, *self._from.rows("find_commits", text=asked.text)[:4]], "")
        statements = (*found.statements, *more.statements)[:_MAX_STATEMENTS]
        return Answer(statements=statements, gap="" if statements else found.gap)

    def _whole(self, commit: str) -> str:
        for case in self._from.store.knowledge.investigations():
            for each in self._from.store.knowledge.suspects(case.id):
                if each.commits and each.commits[0].startswith(commit.lower()):
                    return each.commits[0]
        return commit


def _strongest_first(verdicts: list[VerdictRecord]) -> list[VerdictRecord]:
    """Proven ones in the order in which they were reached, then the others, newest first."""
    proven = [each for each in verdicts if each.verdict is Verdict.PROVEN]
    return [*proven, *(each for each in reversed(verdicts) if each not in proven)]


def _told_of(each: Diagnostic) -> str:
    return f"{each.kind} {each.label}"
