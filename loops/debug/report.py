"""The case as Markdown that a stranger can follow from symptom to verdict. Every statement names its evidence, and no
sentence says "because" without the re-run that shows it (R801-10.1)."""

from __future__ import annotations

from collections.abc import Iterable

from agents import evidence
from agents.roles import grounded
from context_store import Store
from context_store.records import Diagnostic, NegativeResult, Precedent, Suspect, VerdictRecord
from contracts.enums import DiagnosticKind, EffectKind, EffectState, Verdict
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef
from loops.debug.case import Case
from loops.debug.finding import series_ref
from loops.debug.nature import Nature, in_words, stored_nature
from loops.debug.precursors import leads
from loops.debug.readout import ABSENT_BELOW, PRESENT_FROM
from loops.debug.recognised import ordinal
from loops.debug.verification import guards_of

_MAX_REFS = 4
_TERMS = (
    "Effect: the share of the anomaly that goes away when the cause is left out; 1 is all of it. Scope `this_run`: "
    "seen in re-runs from this run's own checkpoint, and said of this run only; `same_code_small`: also from random "
    "weights with other seeds; `observed`: nothing was re-run, so no cause is claimed."
)
_IN_SMALL = (
    "Those with the role `proxy` start from random weights with fewer and shorter sequences instead, since re-runs at "
    "full size cost more than the case may spend. They are compared with the last good code run in the same way, and "
    "point to a cause without proving it."
)
_SHOWN = 6  # suspects that are listed though nothing was run for them
_SCORE = (
    "Ranked before anything was run; the score (0 to 1) weighs when it came into force, what kind of change it is, "
    "whether its words bear on what moved, and what was excluded before. What a re-run showed stands under outcome."
)


def write_report(store: Store, case: Case) -> str:
    """Compose the report from what the store holds on the case; a line that cites anything else is left out of it.

    A proven verdict without the re-runs that show it never comes here: `agents.roles.withheld` weakens it before.
    """
    case_id = case.investigation.id
    investigation, verdicts = store.knowledge.investigation(case_id), store.knowledge.verdicts(case_id)
    parts = [
        f"# {case.leading.statement}",
        f"Run `{case.run_id}`, case `{case_id}`. What stands in `code` names evidence: `lathe why KIND:ID` opens it.",
        *_verdicts(verdicts, investigation.statement, _watched(store, case)),
        *_nature(stored_nature(store, case_id)),
        *_symptoms(case),
        *_recomputed(case),
        *_precedents(store.recurrence.like(case.leading)),
        *_scene(case),
        *_suspects(store.knowledge.suspects(case_id)),
        *_diagnostics(case, store.knowledge.diagnostics(case_id)),
        *_cost(store, case_id),
        *_exclusions(store.negatives.list(investigation_id=case_id), verdicts[0].statement if verdicts else ""),
        *_proposals(store, case_id),
    ]
    text, removed, _ = grounded(store, "\n\n".join(parts))
    told = f"\n\n{removed} lines are left out, since the store does not have what they cite." if removed else ""
    return f"{text}{told}\n"


def _refs(evidence: Iterable[EvidenceRef]) -> str:
    refs = [str(ref) for ref in evidence]
    more = f" and {len(refs) - _MAX_REFS} more" if len(refs) > _MAX_REFS else ""
    return ", ".join(f"`{ref}`" for ref in refs[:_MAX_REFS]) + more


def _watched(store: Store, case: Case) -> tuple[EvidenceRef, ...]:
    """What was decided on the fix and, where it was applied, the points of the run on which it was judged."""
    case_id = case.investigation.id
    refs = [EvidenceRef(kind="proposal", id=each.id) for each in store.proposals.list(investigation_id=case_id)]
    for effect in store.effects.list(investigation_id=case_id):
        if effect.kind is EffectKind.RESUME_WITH_PATCH and effect.state is EffectState.DONE:
            segment = store.runs.segments(case.run_id)[int(effect.result["segment"])]
            steps = segment.start_step + 1, segment.last_step
            names = [name for name in (*case.probe.series[:2], *guards_of(case.probe)) if name in case.view.values]
            refs += [series_ref(case.run_id, name, *steps) for name in names]
    return tuple(refs)


def _verdicts(verdicts: list[VerdictRecord], outcome: str, watched: tuple[EvidenceRef, ...]) -> list[str]:
    """`watched`: evidence of what came of the fix."""
    lines = ["## Verdict"]
    for verdict in verdicts:
        low, high = verdict.interval or (None, None)
        numbers = f"effect {verdict.effect:.2f}" if verdict.effect is not None else "no effect measured"
        interval = f", 95 % {low:.2f} to {high:.2f}" if low is not None and high is not None else ""
        lines.append(
            f"**{verdict.verdict}** (scope `{verdict.scope}`, {verdict.num_reruns} re-runs, {numbers}{interval}). "
            f"{verdict.statement}\n\nWhat would overturn it: {verdict.would_overturn}.\n\n"
            f"Evidence: {_refs(verdict.evidence)}."
        )
    lines += [_TERMS] if verdicts else []
    told = verdicts[0].statement if verdicts else ""
    if came := outcome.removeprefix(told).strip():
        lines.append(f"What came of it: {came}" + (f" ({_refs(watched)})" if watched else ""))
    return lines if len(lines) > 1 else []


def _nature(nature: Nature | None) -> list[str]:
    return [f"Nature, by its look alone: `{nature}`; {in_words(nature)[0]}."] if nature else []


def _symptoms(case: Case) -> list[str]:
    rows = [
        f"- steps {a.onset[0]}-{a.onset[1]}, severity {a.severity:.2f}, from the {a.supplied_by.words}: {a.statement} "
        f"({_refs(a.evidence[:2])})"
        for a in case.anomalies
    ]
    order = [
        f"{lead.sentence[:1].upper()}{lead.sentence[1:]} ({_refs(lead.evidence)})." for lead in leads(case.anomalies)
    ]
    return ["## What was seen", "\n".join(rows), *order]


def _recomputed(case: Case) -> list[str]:
    """What the log alone says, put together again; no re-run."""
    rows = [f"- {each.sentence}; look first at {each.pointer} ({_refs(each.evidence)})." for each in case.recomputed]
    return ["## Recomputed from the log", "\n".join(rows)] if rows else []


def _precedents(found: list[Precedent]) -> list[str]:
    """Earlier cases like this one; what speaks against the same cause is said with them."""
    strong = sum(each.is_strong for each in found)
    rows = [f"This is the {ordinal(1 + strong)} time in such circumstances.\n"] if strong else []
    for each in found:
        how = "the same circumstances" if each.is_strong else f"a hint only, since {'; '.join(each.differs)}"
        rows.append(
            f"- {each.title}: {each.diagnosis} ({how}; alike in {', '.join(each.matched)}; {_refs(each.evidence)})"
        )
    return ["## Seen before", "\n".join(rows)] if rows else []


def _scene(case: Case) -> list[str]:
    scene = case.scene
    if scene is None:
        return ["## What had changed", "The run has no segments, so nothing can be said about what changed."]
    before = f"`{scene.good[:10]}`" if scene.before else "nothing"
    forked = f"; it was forked from run `{scene.parent}` there" if scene.parent else ""
    text = (
        f"The onset lies in segment {scene.segment.number}, which began at step {scene.segment.start_step} with code "
        f"`{scene.faulty[:10]}`{forked}; before it ran {before} (`run:{case.run_id}#{scene.segment.start_step}`)."
    )
    return ["## What had changed", text]


def _suspects(suspects: list[Suspect]) -> list[str]:
    if not suspects:
        return []
    rows = ["| rank | suspect | kind | from the | score | why | outcome | evidence |", "|" + "---|" * 8]
    shown = [s for s in suspects if s.rank <= _SHOWN or " | " in s.reason or s.status]
    for suspect in shown:
        title = suspect.title if suspect.status is not Verdict.REFUTED else f"~~{suspect.title}~~"
        why, _, outcome = suspect.reason.partition(" | ")
        own = evidence.part_of_case("suspect", suspect.investigation_id, suspect.key)
        status = f"{suspect.status}: {outcome}" if suspect.status else outcome or "not tested"
        rows.append(
            f"| {suspect.rank} | {_cell(title)} | {suspect.cause_kind} | {suspect.supplied_by.words} | "
            f"{suspect.score:.2f} | {_cell(why)} | {_cell(status)} | {_refs((own, *suspect.evidence[:2]))} |"
        )
    others = len(suspects) - len(shown)
    rest = [f"{others} more changes rank below these and were not tested."] if others else []
    return ["## Suspects", _SCORE, "\n".join(rows), *rest]


def _diagnostics(case: Case, diagnostics: list[Diagnostic]) -> list[str]:
    if not diagnostics:
        return []
    rows = ["| re-run | role | what ran | anomaly left (0 none, 1 all) | reading |", "|---|---|---|---|---|"]
    for d in diagnostics:
        measure = f"{d.measure:.2f}" if d.measure is not None else "-"
        rows.append(f"| `run:{d.run_id}` | {d.kind} | {_cell(d.label)} | {measure} | {_cell(d.reading or 'pending')} |")
    measured = ", ".join(f"`{name}`" for name in case.probe.series[:6])
    more = f" and {len(case.probe.series) - 6} more" if len(case.probe.series) > 6 else ""
    note = (
        f"Each starts from the run's checkpoint of step {case.scene.segment.start_step if case.scene else 0} and is "
        f"compared over steps {case.window.lo}-{case.window.hi} on {measured}{more} ({case.probe.reading}): 0 is like "
        f"the last good code, 1 like the recorded run; below {ABSENT_BELOW} the anomaly is gone, from {PRESENT_FROM} "
        "on it is there. The last good code itself is compared with the steps before the onset."
    )
    small = [_IN_SMALL] if any(d.kind is DiagnosticKind.PROXY for d in diagnostics) else []
    return ["## Re-runs", note, *small, "\n".join(rows)]


def _cost(store: Store, case_id: str) -> list[str]:
    """What the search could spend and what it did; nothing for a case that was never begun."""
    try:
        budget = store.budgets.state(case_id)
    except NotFound:
        return []
    return [
        f"Budget: {budget.reruns_used} of {budget.reruns} re-runs and {budget.cpu_s_used:.0f} of "
        f"{budget.cpu_s:.0f} CPU s (`investigation:{case_id}`)."
    ]


def _short_reason(negative: NegativeResult, told: str) -> str:
    """The reason, unless it is the verdict's own statement, which stands above."""
    return "" if negative.reason == told else f"{negative.reason[:1].upper()}{negative.reason[1:].rstrip('.')}. "


def _exclusions(negatives: list[NegativeResult], told: str) -> list[str]:
    if not negatives:
        return []
    rows = [
        f'- No longer assumed: "{n.claim}" ({n.reason_class.replace("_", " ")}; {_refs(n.evidence)}). '
        f"{_short_reason(n, told)}Reopen if: {n.reopen_if.rstrip('.')}."
        for n in negatives
    ]
    return ["## What was ruled out, and what was learned", "\n".join(rows)]


def _proposals(store: Store, case_id: str) -> list[str]:
    parts: list[str] = []
    for proposal in store.proposals.list(investigation_id=case_id):
        said = f": {proposal.comment}" if proposal.comment else ""
        decided = f" by {proposal.decided_by}{said}" if proposal.decided_by else ""
        parts.append(
            f"**{proposal.title}** (`proposal:{proposal.id}`, {proposal.state}{decided}). Risk: {proposal.risk}. "
            f"How it is verified: {proposal.verification}."
        )
        if proposal.diff:
            parts.append(f"```diff\n{proposal.diff.rstrip()}\n```")
    return ["## Fix", *parts] if parts else []


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
