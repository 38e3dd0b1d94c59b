"""What the next version tries, and which piece of work that takes: pure functions of what is written down."""

from __future__ import annotations

from typing import Any

import numpy as np
from needs import need

from loops.classifiers.mistakes import Cluster
from loops.quantify.need import Labeller, Option
from loops.quantify.plan import ASK, DEVELOP, FINAL, Facts, Step, next_step
from loops.quantify.revisions import Findings, Revision, RevisionKind, next_revision
from loops.quantify.versions import Recipe, _rules

RULE = (("kernel", "patch"), False, "5 false alarms: a rule")


def findings(**changes: Any) -> Findings:
    fields: dict[str, Any] = {"can_ask": 0, "can_check": False, "suspicious": 0, "num_labels": 40, "rules": ()}
    return Findings(**{**fields, **changes})


def kinds(found: Findings, num: int, *, taken: bool = True) -> list[str]:
    """Of the next revisions when each one is tried and taken, or not."""
    tried: list[Revision] = [Revision(kind=RevisionKind.FIRST, why="first")]
    while len(tried) <= num:
        revision = next_revision(found, tried, [True] + [taken] * (len(tried) - 1), 40)
        if revision is None:
            break
        tried.append(revision)
    return [each.kind.value for each in tried[1:]]


def test_every_kind_of_revision_is_reached_and_none_comes_twice() -> None:
    assert kinds(findings(suspicious=3, rules=[RULE]), 20) == ["without", *["settings"] * 4, "rule"]
    assert kinds(findings(suspicious=3, can_check=True), 20) == ["check", *["settings"] * 4]
    assert kinds(findings(rules=[RULE]), 20, taken=False) == ["settings"] * 3  # three in a row that did not help
    rule = next_revision(findings(rules=[RULE]), [], [], 40)
    assert rule is not None
    assert rule.kind is RevisionKind.SETTINGS


def test_labels_are_asked_for_round_after_round_and_come_last_once_they_do_not_help() -> None:
    assert kinds(findings(can_ask=400), 6) == ["labels"] * 6
    tried = [Revision(kind=RevisionKind.LABELS, why="", detail={"round": 1, "num_texts": 40})]
    after = next_revision(findings(can_ask=400), tried, [False], 40)
    assert after is not None
    assert after.kind is RevisionKind.SETTINGS


def test_new_labels_are_searched_for_wrong_ones_again() -> None:
    tried = [next_revision(findings(suspicious=3), [], [], 40)]
    assert tried[0] is not None
    known = [each for each in tried if each is not None]
    assert next_revision(findings(suspicious=3), known, [False], 40).kind is RevisionKind.SETTINGS  # type: ignore[union-attr]
    assert next_revision(findings(suspicious=3, num_labels=80), known, [False], 40).kind is RevisionKind.WITHOUT  # type: ignore[union-attr]


def test_a_revision_changes_the_recipe_as_it_says() -> None:
    first = Recipe()
    rule = Revision(kind=RevisionKind.RULE, why="", detail={"words": ["kernel", "patch"], "positive": False})
    assert first.revised(rule).rules == ((("kernel", "patch"), False),)
    assert first.revised(Revision(kind=RevisionKind.WITHOUT, why="", detail={"num_labels": 9})).without
    taught = Revision(kind=RevisionKind.SETTINGS, why="", detail={"name": "taught", "taught": True})
    assert first.revised(taught).taught
    more = Revision(kind=RevisionKind.LABELS, why="", detail={"round": 2, "num_texts": 40})
    assert first.revised(more) == first
    assert Recipe.load(first.revised(rule).dump()) == first.revised(rule)


def test_a_rule_is_suggested_only_where_its_words_tell_the_class() -> None:
    texts = ["kernel patch today"] * 6 + ["kernel today"] * 3 + ["prize patch"] * 3
    labels = np.array([False] * 9 + [True] * 3)
    cluster = Cluster(missed=False, texts=(0, 1), words=("kernel", "patch", "today"), slices=())
    (rule,) = _rules(texts, labels, [cluster])
    assert rule[:2] == (("kernel", "patch"), False)
    assert not _rules(texts, ~labels, [cluster])  # they tell the other class
    assert not _rules(texts[3:], labels[3:], [cluster])  # too few texts have them


def version(number: int, *, taken: bool, left: int, revision: Revision) -> dict[str, Any]:
    return {
        "number": number, "revision": revision.dump(), "decision": {"is_taken": taken}, "suspicious": [], "rules": [],
        "num_labels": 40 * number, "num_unlabelled": left, "recipe": Recipe().dump(),
    }  # fmt: skip


def test_the_whole_budget_of_labels_is_used_where_each_round_helps() -> None:
    """At scale: 1,000 labels, 200 first and 100 a round, none of them asked for twice and none beyond the budget."""
    wanted = need(first_labels=200, per_round=100, label_budget=1000, max_versions=20)
    batches: dict[str, Any] = {"train-1": {"items": [f"a{n}" for n in range(200)], "labellers": ["given"]}}
    versions: list[dict[str, Any]] = []
    for _ in range(60):
        facts = Facts(
            need=wanted, has_sample=True, has_prompt=False, batches=batches, labelled=(), versions=versions,
            deployed=False, has_final=False, failed=False,
        )  # fmt: skip
        step = next_step(facts)
        if not isinstance(step, Step) or step.work == FINAL:
            break
        if step.work == ASK:
            num = step.arguments["num_texts"]
            batches[step.arguments["batch"]] = {"items": [f"{step.arguments['batch']}-{n}" for n in range(num)],
                                                "labellers": ["given"]}  # fmt: skip
        else:
            assert step.work == DEVELOP
            revision = Revision.load(step.arguments["revision"])
            helps = revision.kind in (RevisionKind.FIRST, RevisionKind.LABELS)
            versions.append(version(len(versions) + 1, taken=helps, left=5000, revision=revision))
    assert sum(len(batch["items"]) for batch in batches.values()) == 1000
    assert sum(each["revision"]["kind"] == "labels" for each in versions) == 8
    assert [each["revision"]["kind"] for each in versions][-3:] == ["settings"] * 3


def test_what_was_checked_is_not_asked_about_again() -> None:
    wanted = need(labellers=(Labeller.PERSON,))
    first = version(1, taken=True, left=0, revision=Revision(kind=RevisionKind.FIRST, why=""))
    checked = {"number": 2, "revision": Revision(kind=RevisionKind.CHECK, why="", detail={"num_labels": 40}).dump()}
    second = {**version(2, taken=True, left=0, revision=Revision(kind=RevisionKind.FIRST, why="")), **checked}
    batches = {"train-1": {"items": ["a", "b"], "labellers": []}, "check-2": {"items": ["a"], "labellers": []}}
    for suspicious, kind in ((["a"], "settings"), (["a", "b"], "check")):
        facts = Facts(
            need=wanted, has_sample=True, has_prompt=False, batches=batches, labelled=(),
            versions=[first, {**second, "suspicious": suspicious}], deployed=False, has_final=False, failed=False,
        )  # fmt: skip
        step = next_step(facts)
        assert isinstance(step, Step)
        said = step.arguments.get("kind") or step.arguments["revision"]["kind"]
        assert said == kind


def test_what_is_deployed_stays_without_a_last_look_where_nothing_is_better() -> None:
    standing = version(0, taken=True, left=0, revision=Revision(kind=RevisionKind.STANDING, why=""))
    first = version(1, taken=False, left=0, revision=Revision(kind=RevisionKind.FIRST, why=""))
    for option, has_prompt, is_over in (
        (Option.MODEL, True, True),
        (Option.BEST, False, True),
        (Option.BEST, True, False),
    ):
        facts = Facts(
            need=need(option=option, max_versions=1), has_sample=True, has_prompt=has_prompt, batches={}, labelled=(),
            versions=[standing, first], deployed=True, has_final=False, failed=False,
        )  # fmt: skip
        assert isinstance(next_step(facts), str) is is_over
