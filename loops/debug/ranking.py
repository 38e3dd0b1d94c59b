"""Deterministic ranking of factors: timing against the onset, what the change is in substance, whether its words and
the fields it reads bear on the statistics that moved, whether it names the layers, and what was excluded or proven
before. Each part is said in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from context_store import Store
from context_store.code import diff_of
from context_store.negatives import hash_of_diff
from context_store.records import Anomaly, NegativeResult, Precedent
from contracts.enums import CauseKind, Verdict
from contracts.evidence import EvidenceRef
from contracts.names import SeriesName
from loops.debug.measure import Probe
from loops.debug.other_runs import Contrast, contrast_of, stretches
from loops.debug.reading import FieldReads, field_reads
from loops.debug.recomputed import Pointer, Recomputed
from loops.debug.scoring import Signs, score
from loops.debug.substance import Substance, changed_lines, tokens
from loops.debug.suspects import Factor, Scene
from loops.debug.topics import split_words, topics_of

_CONSEQUENCE = 0.5  # weight of the findings after the first
_CIRCUMSTANCE = {True: "a circumstance of the start", False: "told in the middle of the segment"}
_FEW_LAYERS = 4
_SAME_TEXT = 12  # negative results looked at for one factor


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A factor with its signs and the reasons in words. `excluded_by`: stored negative results against it.

    `fields`: those it reads that bear on what departs. `runs`: other runs that had it in force.
    """

    factor: Factor
    signs: Signs
    reason: str
    excluded_by: tuple[NegativeResult, ...] = ()
    fields: tuple[EvidenceRef, ...] = ()
    runs: tuple[EvidenceRef, ...] = ()

    @property
    def score(self) -> float:
        """0..1 (scoring)."""
        return score(self.signs)

    @property
    def evidence(self) -> tuple[EvidenceRef, ...]:
        refs = tuple(EvidenceRef(kind="negative", id=str(negative.id)) for negative in self.excluded_by)
        return (*self.factor.evidence, *self.fields, *refs, *self.runs)


def rank(
    store: Store, scene: Scene, anomalies: Sequence[Anomaly], found: Sequence[Recomputed] = ()
) -> tuple[Ranked, ...]:
    """All factors of a scene, most suspicious first; ties go to the newer commit. `anomalies`: the first one leads.
    `found`: recomputations from the log."""
    reads = field_reads(store, scene, anomalies[0])
    same = _with_same_change(store, scene)
    incidents = _incidents(store, anomalies[0])
    others = stretches(store, scene, Probe.from_json(anomalies[0].probe))
    ranked = [
        _contrasted(
            _as_before(
                _rank_one(store, scene, factor, anomalies, _reads_of(factor, reads), same.get(factor.key, ())),
                incidents,
            ),
            contrast_of(store, factor, others),
        )
        for factor in scene.factors
    ]
    ranked = [pointed(each, found) for each in ranked]
    order = {factor.key: i for i, factor in enumerate(scene.factors)}
    return tuple(sorted(ranked, key=lambda r: (-round(r.score, 6), -order[r.factor.key])))


def pointed(ranked: Ranked, found: Sequence[Recomputed]) -> Ranked:
    """More suspicious where a recomputation points: at what is printed, or at the shares of the data."""
    pointers = {each.pointer for each in found}
    if Pointer.HOW_IT_IS_MADE in pointers and ranked.factor.substance is Substance.LOGGING:
        reason = f"{ranked.reason}; the log says that what is printed changed"
        return replace(ranked, signs=replace(ranked.signs, told_by_log="printed"), reason=reason)
    if Pointer.SHARES in pointers and ranked.factor.cause_kind is CauseKind.DATA:
        reason = f"{ranked.reason}; the log says that the shares of the sources moved the loss"
        return replace(ranked, signs=replace(ranked.signs, told_by_log="shares"), reason=reason)
    return ranked


def _contrasted(ranked: Ranked, contrast: Contrast) -> Ranked:
    """Less suspicious when other runs had it without harm, more when all that had it show the same."""
    if not contrast.reason:
        return ranked
    signs = replace(ranked.signs, elsewhere="free" if contrast.free else "showing")
    return replace(ranked, signs=signs, reason=f"{ranked.reason}; {contrast.reason}", runs=contrast.evidence)


def _as_before(ranked: Ranked, incidents: Sequence[tuple[Precedent, frozenset[str]]]) -> Ranked:
    """More suspicious when an earlier case like this one has proven the same cause; half as much in other
    circumstances."""
    for precedent, causes in incidents:
        if ranked.factor.key in causes:
            signs = replace(ranked.signs, precedent=2 if precedent.is_strong else 1)
            reason = f"{ranked.reason}; proven in an earlier case like this one ({precedent.investigation_id})"
            return replace(ranked, signs=signs, reason=reason)
    return ranked


def _incidents(store: Store, anomaly: Anomaly) -> list[tuple[Precedent, frozenset[str]]]:
    """Earlier cases like this one with the keys of what they have proven, the most alike first."""
    found = []
    for each in store.recurrence.like(anomaly):
        suspects = store.knowledge.suspects(each.investigation_id) if each.investigation_id else []
        found.append((each, frozenset(s.key for s in suspects if s.status is Verdict.PROVEN)))
    return found


def _timing(scene: Scene, factor: Factor, onset: tuple[int, int]) -> tuple[int, str]:
    """Steps from its coming into force to the onset, and in words."""
    step = scene.segment.start_step if factor.step is None else factor.step
    gap = max(0, onset[0] - step - 1)
    if not factor.is_new:
        return gap, "in force since before all was well"
    return gap, f"newly in force at step {step}" + (f", {gap} steps before it began" if gap else "")


def _reads_of(factor: Factor, reads: Mapping[str, FieldReads]) -> FieldReads | None:
    return reads.get(factor.commit.hash) if factor.commit else None


def _rank_one(
    store: Store,
    scene: Scene,
    factor: Factor,
    anomalies: Sequence[Anomaly],
    read: FieldReads | None,
    same: Sequence[NegativeResult],
) -> Ranked:
    if factor.rank is not None:
        signs = Signs(of_a_rank=True)
        return Ranked(factor=factor, signs=signs, reason=f"what departs is rank {factor.rank}'s alone")
    words = set(split_words(factor_words(factor)))
    link, topics = _link(words, anomalies)
    layers, modules = _named_layers(factor, anomalies), _named_modules(words, anomalies)
    known = _known_exclusions(store, scene, factor, anomalies[0], same)
    explained = _explained(words, factor, scene)
    harm = [each for each in same if each.reason_class == "caused_anomaly"]
    gap, when = _timing(scene, factor, anomalies[0].onset)
    signs = Signs(
        substance=factor.substance.name.lower(), link=link, reads=read.strength if read else 0.0, layers=bool(layers),
        modules=bool(modules), explains=bool(explained), harmed=bool(harm), excluded=bool(known), gap=gap,
        is_new=factor.is_new, testable=factor.testable,
    )  # fmt: skip
    reasons = [
        when,
        str(factor.substance) if factor.commit else _CIRCUMSTANCE[factor.step is None],
        "its words bear on " + ", ".join(topics) if topics else "nothing in it bears on what moved",
    ]
    reasons += [f"names layer {', '.join(layers)}"] if layers else []
    reasons += [f"names {', '.join(modules)}"] if modules else []
    reasons += [f"may be why {explained}"] if explained else []
    reasons += [read.reason] if read else []
    reasons += [f"the same change did harm before: {each.reason}" for each in harm[:1]]
    reasons += [f"excluded before: {negative.reason}" for negative in known[:1]]
    fields = read.evidence if read else ()
    return Ranked(factor=factor, signs=signs, reason="; ".join(reasons), excluded_by=known, fields=fields)


def factor_words(factor: Factor) -> list[str]:
    """Paths, symbols, identifiers of changed lines and config fields. Commit messages are claims, not evidence."""
    names = [change.key for change in factor.fields] + ([factor.title] if factor.step is not None else [])
    for hunk in factor.hunks:
        names += [hunk.path.removesuffix(".py"), *hunk.symbols]
        for lines in changed_lines(hunk):
            names += [token for token in tokens(lines) if token.isidentifier()]
    return names


def _link(words: set[str], anomalies: Sequence[Anomaly]) -> tuple[float, list[str]]:
    """0..1, and the topics that link. Each further topic halves what is missing to 1."""
    topics = topics_of(words)
    total = weight_sum = 0.0
    linked: dict[str, None] = {}
    for i, anomaly in enumerate(anomalies):
        bearing = [topic.name for topic in topics if any(topic.bears_on(name) for name in anomaly.series)]
        weight = 1.0 if i == 0 else _CONSEQUENCE
        total += weight * (1.0 - 0.5 ** len(bearing))
        weight_sum += weight
        linked.update(dict.fromkeys(bearing))
    return total / weight_sum, list(linked)


def _named_layers(factor: Factor, anomalies: Sequence[Anomaly]) -> list[str]:
    """The layers of a layer-specific anomaly, when a change that speaks of layers has all of them as literals."""
    layers = {layer for name in anomalies[0].series if (layer := SeriesName.parse(name).layer) is not None}
    text = " ".join(line for hunk in factor.hunks for line in changed_lines(hunk)[1])
    literals = {int(found) for found in re.findall(r"(?<![\w.])\d+(?![\w.])", text)}
    if not layers or len(layers) > _FEW_LAYERS or not layers <= literals or "layer" not in text.lower():
        return []
    return [str(layer) for layer in sorted(layers)]


def _explained(words: set[str], factor: Factor, scene: Scene) -> str:
    """An effective change that no declared field says, when this change is about what decides it; else ""."""
    if not factor.is_new or list(Substance).index(factor.substance) < list(Substance).index(Substance.SMALL_NUMBER):
        return ""
    for change in scene.effective:
        deciding = {topic.name for topic in topics_of([change.key.partition(".")[0]])}
        if deciding & {topic.name for topic in topics_of(words)}:
            return f"{change.key} is {change.after}, was {change.before}"
    return ""


def _named_modules(words: set[str], anomalies: Sequence[Anomaly]) -> list[str]:
    """Last module parts of the leading anomaly's series (`norm` of `layers.3.norm`) that the change names."""
    modules = {SeriesName.parse(name).module.rpartition(".")[2] for name in anomalies[0].series}
    return sorted(module for module in modules if module and not module.isdigit() and module.lower() in words)


def _known_exclusions(
    store: Store, scene: Scene, factor: Factor, anomaly: Anomaly, same: Sequence[NegativeResult]
) -> tuple[NegativeResult, ...]:
    """Stored exclusions of the same change for the same kind of anomaly in this project, by re-runs of other cases."""
    if factor.commit is None or factor.cause_kind is CauseKind.ENVIRONMENT:
        return ()
    found = store.negatives.search(factor.commit.hash, project_id=scene.project_id, limit=_SAME_TEXT)
    named = [each for each, _ in found if each.context.get("commit") == factor.commit.hash]
    by_id = {each.id: each for each in (*named, *same)}
    return tuple(
        negative
        for negative in by_id.values()
        if negative.context.get("anomaly_kind") == anomaly.kind and negative.reason_class == "excluded_by_rerun"
    )


def _with_same_change(store: Store, scene: Scene) -> dict[str, list[NegativeResult]]:
    """By factor: what other runs of the project say of the same change, whichever commit made it there.

    A change that was taken back may have come again.
    """
    hashes = {factor.key: hash_of_diff(diff_of(factor.hunks)) for factor in scene.factors if factor.hunks}
    known = store.negatives.with_diffs(set(hashes.values()))
    return {
        key: [n for n in known[hashed] if n.project_id == scene.project_id and n.context.get("run") != scene.run_id]
        for key, hashed in hashes.items()
        if hashed in known
    }
