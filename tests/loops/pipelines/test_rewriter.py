"""The rewriter of mails on the skeleton of classifiers: declared, evaluated, improved, audited, gated."""

from __future__ import annotations

import numpy as np
import pytest

from context_store.records import Level
from contracts.errors import UserInputError
from loops.classifiers.groups import near_duplicates
from loops.pipelines.component import (
    ComponentKind,
    Declared,
    Evaluation,
    EvaluationSet,
    Pipeline,
    decide,
    digest_of,
)
from loops.pipelines.damage import damaged
from loops.pipelines.fidelity import audit
from loops.pipelines.improve import Revision, improve
from loops.pipelines.rewriter import RULES, Rewriter, audited, evaluate

_WORDS = "the build of release kernel thread server question patch module review branch works today again after we"


def mails(num: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """(texts, form of each): letters with quotes, and patches whose lines must stay as they are."""
    rng, texts, forms = np.random.default_rng(seed), [], []
    vocabulary = _WORDS.split()
    for number in range(num):
        words = [str(each) for each in rng.choice(vocabulary, 60)]
        if number % 3 == 0:
            lines = [f"+{' '.join(words[at : at + 12])} {{ x_{number} <- {at} && y }}" for at in range(0, 60, 12)]
            lines += [f"context of line {number} that is as long as the line of a program can be", "return x"]
        else:
            lines = [f'Hello no {number}, "see" below', "", f">> {' '.join(words[:9])}", f"> {' '.join(words[9:18])}"]
            lines += ["", " ".join(words[18:27]), f"price 1{number}.50 = https://shop.example/a?b={number}"]
        texts.append("\n".join(lines) + "\n")
        forms.append("patch" if number % 3 == 0 else "letter")
    return texts, forms


def prepared(num: int = 240) -> tuple[list[str], list[str], EvaluationSet]:
    wanted, forms = mails(num)
    rng = np.random.default_rng(1)
    given = [damaged(text, rng) for text in wanted]
    on = EvaluationSet(sha256=digest_of([given, wanted]), groups=near_duplicates(wanted), slices={"form": forms})
    return given, wanted, on


def test_rules_that_help_are_taken_and_one_that_breaks_patches_is_not() -> None:
    """Shows R801-5.2: the process that judges classifiers judges a rewriter; a slice that gets worse stops a rule."""
    given, wanted, on = prepared()
    revisions = [
        Revision(name=rule, why=f"texts with {rule}", make=lambda now, rule=rule: now.plus(rule))  # type: ignore[misc]
        for rule in (*(name for name in RULES if name not in ("unwrap", "whitespace")), "unwrap")
    ]
    found = improve(
        Rewriter(rules=("whitespace",)), revisions, lambda name, it: evaluate(name, it, given, wanted, on), on
    )
    taken = {revision.name: decision for revision, decision in zip(revisions, found.decisions[1:], strict=True)}
    assert {name for name, each in taken.items() if each.is_taken} == {
        "quoted_printable",
        "entities",
        "quotes",
        "footer",
    }
    assert taken["unwrap"].gate is not None
    assert "form=patch" in taken["unwrap"].gate.worse
    assert taken["unwrap"].change is not None
    assert taken["unwrap"].change.high < 0.0
    assert found.evaluation.right.mean() > 0.95
    assert "unwrap" not in found.standing.rules
    assert Rewriter(rules=found.standing.rules).digest == found.standing.digest != Rewriter(rules=()).digest


def test_a_repair_may_take_away_what_it_declares_and_nothing_else() -> None:
    before = "Pay 12.50 to ann@shop.example, not 99.\n----------\nTo unsubscribe: http://l.example/u\n"
    assert audit(before, "Pay 12.50 to ann@shop.example, not 99.\n", [before.partition("\n")[2]]).passed
    assert audit(before, before.replace("12.50", "125.0"), []).added == ("125.0",)
    assert audit(before, before.replace(", not 99", ""), []).lost == (",", "99", "not")
    assert audit("a &lt;b&gt; =E2=82=AC5", "a <b> €5", []).passed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Pay 5 to Ann and 90 to Bob", "Pay 90 to Ann and 5 to Bob"),
        ("it is -5 outside", "it is 5 outside"),
        ("Dog bites man", "man bites Dog"),
        ("if x < y", "if x > y"),
        ("a != b", "a == b"),
        ("cost: 5 $", "cost: 5 €"),
        ("No. More is needed", "No More is needed"),
        ("US and us", "us and US"),
        ("First this. Then that.", "Then that. First this."),
    ],
)
def test_what_is_moved_turned_or_signed_otherwise_is_caught(before: str, after: str) -> None:
    assert audit(before, before.replace(" ", "  ") + "\n", []).passed
    found = audit(before, after, [])
    assert not found.passed
    assert audited(before, after, ()).text == before


def test_marks_of_quotes_and_line_ends_are_layout() -> None:
    assert audit("> > so it is\r\n>> yes\r\n", ">> so it is\n>> yes\n", []).passed
    assert audit("&gt; &gt; if a &lt; b\n", ">> if a < b\n", []).passed
    long = " ".join(map(str, range(9000)))
    assert not audit(long, " ".join(map(str, reversed(range(9000)))), []).passed


def test_wrong_rewrites_are_caught_and_the_text_stays_as_it_was() -> None:
    """Every planted change of a number or loss of a word, over many texts."""
    texts, _ = mails(90)
    for number, text in enumerate(texts):
        wrong = text.replace("the ", "", 1) if number % 2 and "the " in text else text.replace(str(number), "7777", 1)
        assert wrong != text
        assert not audit(text, wrong, []).passed
    done = audited("do not pay  \n", "do pay\n", ())
    assert (done.text, done.removed) == ("do not pay  \n", ())
    assert done.refused is not None
    assert done.refused.lost == ("not",)
    address = "see http://shop.example/?id=20 and more\n"
    assert Rewriter(rules=("quoted_printable",)).rewrite(address).text == address


def test_repairing_twice_changes_nothing_more() -> None:
    given, _, _ = prepared(60)
    rewriter = Rewriter(rules=("quoted_printable", "entities", "quotes", "whitespace", "footer"))
    for text in given:
        once = rewriter.rewrite(text).text
        assert rewriter.rewrite(once).text == once


def test_what_is_not_declared_or_not_taken_enters_no_pipeline() -> None:
    """Shows R801-5.2: an undeclared component cannot enter, nor a version that was refused; levels never fall."""
    with pytest.raises(UserInputError, match="not declared"):
        Declared(name="repair", kind=ComponentKind.REWRITER, level=Level.L4, purpose="", evaluation_sha256="x")
    on = EvaluationSet(sha256="s", groups=np.arange(40), slices={})

    def version(name: str, share: float) -> Evaluation:
        values = (np.arange(40) < share * 40).astype(np.float64)
        return Evaluation(version=name, evaluation_sha256="s", metric="m", values=values, right=values >= 1.0)

    first, worse = decide(None, version("v1", 0.9), on), decide(version("v1", 0.9), version("v2", 0.85), on)
    assert (first.is_taken, worse.is_taken, worse.against) == (True, False, "v1")
    late, early = (
        Declared(name=name, kind=ComponentKind.FILTER, level=level, purpose="p", evaluation_sha256="s")
        for name, level in (("late", Level.L4), ("early", Level.L2))
    )
    pipeline = Pipeline(name="mail").plus(early, first).plus(late, first)
    assert [each.declared.name for each in pipeline.placed] == ["early", "late"]
    with pytest.raises(UserInputError, match="may not enter"):
        pipeline.plus(late, worse)
    with pytest.raises(UserInputError, match="level L2"):
        pipeline.plus(early, first)
    with pytest.raises(UserInputError, match="another set"):
        decide(None, version("v1", 0.9), EvaluationSet(sha256="t", groups=np.arange(40), slices={}))
