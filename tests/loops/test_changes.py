"""What a change is in substance, which lines of it ran, and how a set of changes becomes a code version."""

from __future__ import annotations

import pytest
from world import ATTENTION, README, REPORT, SCALE, TO_BIAS, WARMUP, World

from context_store.records import Commit, Executed, Hunk
from contracts.enums import CauseKind
from loops.debug import detect, open_case
from loops.debug.case import load_case
from loops.debug.executed import lines_now, ran_lines
from loops.debug.experiments import code_of, payload_of
from loops.debug.facts import Identity
from loops.debug.substance import Substance, substance
from loops.debug.suspects import Factor
from loops.debug.topics import topics_of


def hunk(
    text: str, *, path: str = "balance.py", commit: str = "c", at: tuple[int, int, int, int] = (1, 1, 1, 1)
) -> Hunk:
    old_start, old_lines, new_start, new_lines = at
    return Hunk(
        commit=commit,
        path=path,
        old_start=old_start,
        old_lines=old_lines,
        new_start=new_start,
        new_lines=new_lines,
        symbols=(),
        text=text,
    )


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("-A project.\n+A better project.\n", "README.md", Substance.DOCUMENTATION),
        ("-assert x == 1\n+assert x == 2\n", "tests/test_loader.py", Substance.DOCUMENTATION),
        ("+# The ranks take turns, one sample each.\n", "loader.py", Substance.COMMENT),
        ("+Fedus et al. 2021 (Switch Transformer), equation 4.\n", "balance.py", Substance.COMMENT),
        ("-    total_E = load_RE.mean(dim=0)\n+    load_E = load_RE.mean(dim=0)\n", "balance.py", Substance.RENAME),
        ('-    return f"{value:.3f}"\n+    return f"{value:.4f}"\n', "report.py", Substance.LOGGING),
        ('-    parts = [f"step {n}"]\n+    parts = [f"step {n:6d}"]\n', "any.py", Substance.LOGGING),
        ("+    logger.info(loss)\n", "any.py", Substance.LOGGING),
        ("-    return loss\n+    return torch.log(loss)\n", "report.py", Substance.LOGIC),
        ("-        lr=3e-3,\n+        lr=3.15e-3,\n", "recipe.py", Substance.SMALL_NUMBER),
        ("-        lr=1e-3,\n+        lr=5e-2,\n", "recipe.py", Substance.LARGE_NUMBER),
        ("-    return a * b\n+    return a + b\n", "balance.py", Substance.LOGIC),
        ("-    x = total\n-    y = total\n+    x = load\n+    y = other\n", "balance.py", Substance.LOGIC),
    ],
)
def test_substance(text: str, path: str, expected: Substance) -> None:
    assert substance([hunk(text, path=path)]) is expected


def test_the_most_suspicious_hunk_counts() -> None:
    assert substance([hunk("+# words\n"), hunk("-x = 1\n+x = 9\n")]) is Substance.LARGE_NUMBER
    assert substance([]) is Substance.DOCUMENTATION


def test_words_lead_to_statistics() -> None:
    names = {topic.name for topic in topics_of(["optim.router.weight_decay"])}
    assert {"router", "weight decay and parameter groups"} <= names
    assert any(topic.bears_on("max_vio/layers.5") for topic in topics_of(["balance"]))
    assert not any(topic.bears_on("repeated_samples") for topic in topics_of(["balance"]))


def test_lines_are_followed_through_later_commits() -> None:
    """Insertions and removals above move a line, a replacement of it takes it away."""
    written = hunk("", at=(9, 0, 10, 2))  # lines 10 and 11
    above = hunk("", commit="d", at=(3, 0, 4, 5))  # five lines inserted behind line 3
    removed = hunk("", commit="e", at=(1, 2, 0, 0))  # the first two lines removed
    replaced = hunk("", commit="f", at=(13, 1, 13, 1))
    assert lines_now(written, [above]) == {15, 16}
    assert lines_now(written, [above, removed]) == {13, 14}
    assert lines_now(written, [above, removed, replaced]) == {14}


def test_whether_lines_ran() -> None:
    commit = Commit(hash="c", parents=("p",), author="", committed_at=0.0, subject="s", ordinal=1)
    change = Factor(
        key="commit:c",
        cause_kind=CauseKind.CODE,
        title="",
        evidence=(),
        commit=commit,
        hunks=(hunk("", path="folder/balance.py", at=(4, 1, 4, 1)),),
    )
    ran = Executed(modules={"balance.py": "a"}, lines={"balance.py": (3, 4)})
    assert ran_lines(change, [], ran) is True
    assert ran_lines(change, [], Executed(modules={"balance.py": "a"}, lines={"balance.py": (3, 5)})) is False
    assert ran_lines(change, [], Executed(modules={}, lines={})) is False


def test_sets_of_changes_become_code_versions(world: World) -> None:
    """One commit off is a revert on the faulty version, a prefix is a version of the history, else picks."""
    world.train("run", world.lay_out([REPORT], [README, ATTENTION, SCALE, WARMUP]))
    case_id = open_case(world.store, "run", detect(world.store, "run"), 0.0)
    assert case_id is not None
    case = load_case(world.store, case_id)
    assert case.scene is not None
    commit = world.commits
    edits = (REPORT, README, ATTENTION, SCALE, WARMUP)
    report, readme, attention, scale, warmup = (f"commit:{commit[e.subject]}" for e in edits)
    every = frozenset([report, readme, attention, scale, warmup])
    scene, head, good = case.scene, commit[WARMUP.subject], commit[REPORT.subject]
    assert code_of(scene, every) == {"base": head, "revert": [], "pick": []}
    assert code_of(scene, every - {scale}) == {"base": head, "revert": [commit[SCALE.subject]], "pick": []}
    assert code_of(scene, frozenset([report])) == {"base": good, "revert": [], "pick": []}
    assert code_of(scene, frozenset([report, scale])) == {"base": good, "revert": [], "pick": [commit[SCALE.subject]]}
    assert code_of(scene, frozenset([report, readme, attention])) == {
        "base": commit[ATTENTION.subject],
        "revert": [],
        "pick": [],
    }
    payload = payload_of(case, Identity(on=every))
    assert payload == payload_of(case, Identity(on=every))
    assert (payload["start_step"], payload["max_step"]) == (110, case.window.hi)
    assert payload["run_id"] != payload_of(case, Identity(on=every - {scale}))["run_id"]


def test_config_fields_are_pinned_on_the_commit_that_set_them(world: World) -> None:
    """Shows R801-2.7: a declared field that changed is told to come from this commit, and from no other."""
    world.train("run", world.lay_out([REPORT], [ATTENTION, TO_BIAS, SCALE]))
    case_id = open_case(world.store, "run", detect(world.store, "run"), 0.0)
    assert case_id is not None
    case = load_case(world.store, case_id)
    by_title = {ranked.factor.title.split(" ", 1)[1]: ranked.factor for ranked in case.ranked}
    attention = by_title[ATTENTION.subject]
    assert [change.key for change in attention.fields] == ["optim.attention_lr"]
    assert attention.cause_kind is CauseKind.CONFIG
    assert by_title[SCALE.subject].cause_kind is CauseKind.CODE
    assert not any(ranked.factor.key.startswith("launch:") for ranked in case.ranked)


def test_reasons_of_the_ranking_are_words(world: World) -> None:
    world.train("run", world.lay_out([REPORT], [ATTENTION, SCALE, README]))
    case_id = open_case(world.store, "run", detect(world.store, "run"), 0.0)
    assert case_id is not None
    first, *_, last = load_case(world.store, case_id).ranked
    assert first.factor.commits == (world.commits[SCALE.subject],)
    assert (
        first.reason == "newly in force at step 110; changes a number a lot; its words bear on load balance, numerics"
    )
    assert last.score < 0.05 * first.score
