"""Which piece of work is next. A pure function of what is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loops.quantify.labels import CHECK
from loops.quantify.need import Labeller, Need, Option
from loops.quantify.revisions import Findings, Revision, RevisionKind, next_revision

SAMPLE, TUNE, LABEL, ASK, DEVELOP, FINAL = "sample", "tune", "label", "ask", "develop", "final"
_ASKED_FIRST = {RevisionKind.LABELS: "train", RevisionKind.CHECK: CHECK}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of one case. `batches` as stored, in order; `labelled`: those that the model has been through; `versions` as
    stored, oldest first; `deployed`: the name has a deployed version that was made for another case."""

    need: Need
    has_sample: bool
    has_prompt: bool
    batches: Mapping[str, Mapping[str, Any]]
    labelled: Sequence[str]
    versions: Sequence[Mapping[str, Any]]
    deployed: bool
    has_final: bool
    failed: bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """A piece of work of `loops.quantify.work`, with its arguments as JSON values."""

    work: str
    reason: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def next_step(facts: Facts) -> Step | str:
    """The step, or why there is none."""
    if facts.failed:
        return "a piece of work failed"
    if not facts.has_sample:
        return Step(work=SAMPLE, reason="chooses the texts that judge, without ever splitting near-duplicates")
    if Labeller.MODEL in facts.need.labellers and not facts.has_prompt:
        return Step(work=TUNE, reason="writes the labelling prompt, and tries better ones where they can be judged")
    for name, batch in facts.batches.items():
        if Labeller.MODEL.value in batch["labellers"] and name not in facts.labelled:
            reason = f"has {len(batch['items'])} texts of {name} labelled by the model"
            return Step(work=LABEL, reason=reason, arguments={"batch": name})
    revision = _next(facts)
    if revision is not None:
        return _step(facts, revision)
    taken = [each["number"] for each in facts.versions if each["decision"]["is_taken"]]
    if not taken:
        return "no version could be made"
    if taken == [0] and (facts.need.option is Option.MODEL or not facts.has_prompt):
        return "what is deployed stays: no version is better"
    if facts.has_final:
        return "nothing is left that the error analysis suggests"
    return Step(work=FINAL, reason="looks once at the texts that were held out")


def _next(facts: Facts) -> Revision | None:
    tried = [Revision.load(each["revision"]) for each in facts.versions]
    kinds = {each.kind for each in tried}
    if facts.deployed and RevisionKind.STANDING not in kinds:
        return Revision(kind=RevisionKind.STANDING, why="what is deployed now, on this case's texts")
    if RevisionKind.FIRST not in kinds:
        return Revision(kind=RevisionKind.FIRST, why="the first labels as they are")
    if _made(facts)[-1].get("error") and len(_made(facts)) == 1:
        return None
    if len(_made(facts)) >= facts.need.max_versions:
        return None
    taken = [bool(each["decision"]["is_taken"]) for each in facts.versions]
    return next_revision(_findings(facts), tried, taken, facts.need.per_round)


def _step(facts: Facts, revision: Revision) -> Step:
    number = 0 if revision.kind is RevisionKind.STANDING else len(_made(facts)) + 1
    batch = f"{_ASKED_FIRST[revision.kind]}-{number}" if revision.kind in _ASKED_FIRST else ""
    if batch and batch not in facts.batches:
        return Step(
            work=ASK, reason=f"asks for labels: {revision.why}",
            arguments={
                "batch": batch, "kind": revision.kind.value,
                "num_texts": revision.detail.get("num_texts", facts.need.per_round),
            },
        )  # fmt: skip
    arguments = {"version": number, "revision": revision.dump()}
    return Step(work=DEVELOP, reason=f"version {number}: {revision.why}", arguments=arguments)


def _made(facts: Facts) -> list[Mapping[str, Any]]:
    """Versions of this case."""
    return [each for each in facts.versions if each["number"] > 0]


def _findings(facts: Facts) -> Findings:
    """Of the newest version that has an analysis of training mistakes: the one that stands, else the last one made.
    A batch that was asked for a version that is still to be made changes nothing yet: it answers these findings."""
    analysed = [each for each in _made(facts) if not each.get("error")]
    taken = [each for each in analysed if each["decision"]["is_taken"]]
    basis = (taken or analysed)[-1]
    asked = [
        (name.partition("-")[0], batch["items"])
        for name, batch in facts.batches.items()
        if (number := name.rpartition("-")[2]).isdigit() and int(number) <= len(_made(facts))
    ]
    num_asked = sum(len(items) for kind, items in asked if kind == "train")
    checked = {item for kind, items in asked if kind == CHECK for item in items}
    left = min(facts.need.label_budget - num_asked, int(basis["num_unlabelled"]))
    return Findings(
        can_ask=max(0, left), can_check=Labeller.PERSON in facts.need.labellers,
        suspicious=0 if basis["recipe"]["without"] else len(set(basis["suspicious"]) - checked),
        num_labels=int(basis["num_labels"]),
        rules=[(tuple(words), positive, sentence) for words, positive, sentence in basis["rules"]],
    )  # fmt: skip
