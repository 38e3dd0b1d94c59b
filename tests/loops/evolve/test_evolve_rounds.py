"""Rounds of a run: killed at any piece they decide the same, they replay offline, and nothing unproven is kept.

Shows RM2-7.23, RM2-7.24 and RM2-7.28.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import Coins, Greedy, Leaking, Lucky, Scripted, evolution_in, small_plan

from contracts.errors import NotPermitted, UserInputError
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive
from loops.evolve.board import planted
from loops.evolve.evaluation import Evaluator, Job
from loops.evolve.journal import FolderJournal
from loops.evolve.operators import CATALOGUE, Move
from loops.evolve.parents import Node, Search, choose, clades
from loops.evolve.plan import IDEA, Plan, sources_hash
from loops.evolve.proposer import Operators
from loops.evolve.report import gain, markdown, summary
from loops.evolve.surface import params_of
from loops.evolve.tasks import Split, read_suite


def test_a_run_that_is_killed_after_every_piece_decides_the_same(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    whole, plan = finished
    while evolution_in(place / "pieces", plan, quick).step():  # each piece by a new process's objects
        pass
    journals = [FolderJournal(folder / "journal.jsonl") for folder in (whole, place / "pieces")]
    for kind in ("root", "fix", "proposal", "block", "decision", "memory"):
        assert journals[0].list(kind) == journals[1].list(kind)
    refs = [Archive(folder / "archive.git", "test").refs() for folder in (whole, place / "pieces")]
    assert refs[0] == refs[1]
    assert len([name for name in refs[0] if name.startswith("verdicts")]) == 2
    tag = json.loads(_shown(whole / "archive.git", refs[0]["verdicts/0001"]))
    rounds = dict(journals[0].list("block"))
    assert tag["pairs"] == [pair for key, body in rounds.items() if key.startswith("1/") for pair in body["jobs"]]
    assert tag["fix_asks"] > 0
    assert tag["fix_chars"] > 0
    assert len(tag["fix_seeds"]) == len(quick.suite.of(Split.FIX))


def _shown(repository: Path, name: str) -> str:
    """The message of a tag, or a blob."""
    text = subprocess.run(["git", "cat-file", "-p", name], cwd=repository, capture_output=True, check=True).stdout
    return text.decode().partition("\n\n")[2] or text.decode()


def test_another_plan_or_suite_does_not_go_on(finished: tuple[Path, Plan], quick: Evaluator) -> None:
    folder, plan = finished
    with pytest.raises(UserInputError, match="rule"):
        evolution_in(folder, Plan(**{**vars(plan), "rule": Rule(rounds=3)}), quick)


def test_the_seal_is_opened_once_and_only_at_the_end(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    folder, plan = finished
    with pytest.raises(NotPermitted):
        evolution_in(place / "sealed", plan, quick).open_seal("a person")
    run = evolution_in(folder, plan, quick)
    body = run.open_seal("a person", seeds=1)
    assert run.open_seal("somebody else", seeds=9) == body
    assert -1.0 <= gain(body).low <= gain(body).high <= 1.0
    assert "Opened by a person" in markdown(run.history)
    sealed = summary(run.history)["sealed"]
    assert sealed["by_seed"]["first"] == [pytest.approx(sealed["first"])]


def test_a_real_gain_is_kept_and_shapes_the_next_round(place: Path, quick: Evaluator) -> None:
    """The second round is made on the commit that the first one kept; a repeat on the same scaffold is refused."""
    more = Move(kind="set", what="retries", after="3")
    retry = (Move(kind="add mechanism", what="retry", after=""), more)
    plan = small_plan(
        quick, rule=Rule(rounds=2, effect=0.2, max_pairs=48, run_alpha=0.5), block=16, fix_seeds=2, screen=0.05
    )
    run = evolution_in(
        place / "gain", plan, quick, Scripted(retry, (Move(kind="add skill", what="squeeze", after=""),))
    )
    while run.step():
        pass
    first, second = run.history.decisions
    assert first["kept"], first
    proposal = run.history.journal.get("proposal", "2")
    assert proposal is not None
    assert proposal["parent"] == first["candidate"]
    archive = Archive(place / "gain" / "archive.git", "test")
    assert "retry" in params_of(archive.files(archive.incumbent))["mechanisms"]
    assert second["base"] == first["candidate"]
    found = summary(run.history)
    assert found["canary_hits"] == 0
    assert found["kept"][0]["round"] == 1


def test_a_harmful_change_is_reverted_to_the_same_tree(place: Path, quick: Evaluator) -> None:
    plan = small_plan(quick, rule=Rule(rounds=1, effect=0.3, max_pairs=16, run_alpha=0.5))
    run = evolution_in(place / "harm", plan, quick, Scripted((Move(kind="remove tool", what="shell", after=""),)))
    archive = Archive(place / "harm" / "archive.git", "test")
    before = archive.tree_of(archive.incumbent)
    while run.step():
        pass
    assert not run.history.decisions[0]["kept"]
    assert archive.tree_of(archive.incumbent) == before
    assert "candidates/0001" in archive.refs()
    negative = run.history.failed_before(frozenset(run.history.journal.get("proposal", "1")["parts"]), before)  # type: ignore[index]
    assert negative == "round 1"


def test_placebos_reach_the_gate_with_chance_of_their_own_and_a_control_is_seen(place: Path, quick: Evaluator) -> None:
    """Whatever the screen and the parent: a placebo is the incumbent once more, the control the same edit always."""
    rule = Rule(rounds=2, effect=0.2, max_pairs=20, run_alpha=0.95)
    plan = small_plan(
        quick, rule=rule, placebo_share=0.5, control_round=2, screen=0.5, block=10, search=Search.BEST_OF_N
    )
    run = evolution_in(place / "blind", plan, quick)
    while run.step():
        pass
    first, control = run.history.decisions
    found = summary(run.history)
    assert [first["kind"], control["kind"]] == ["placebo", "control"]
    assert found["placebo_at_gate"] == 1
    block = run.history.journal.get("block", "1/0")
    assert block is not None
    jobs, others = block["jobs"], block["candidate_jobs"]
    assert [task for task, _ in jobs] == [task for task, _ in others]
    assert not {seed for _, seed in jobs} & {seed for _, seed in others}
    assert first["base"] == run.history.root
    assert found["control"] == [{"round": 2, "seen": True}]
    assert found["canaries"][-1]["hits"] == [(2, 1)]
    assert not control["kept"]
    assert "1 of 1 reached the gate" in markdown(run.history)


def test_placebos_differ_by_chance_and_are_seldom_accepted(place: Path, quick: Evaluator) -> None:
    plan = small_plan(quick, rule=Rule(rounds=20, effect=0.3, max_pairs=40), placebo_share=1.0, block=20)
    run = evolution_in(place / "coins", plan, Coins(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    found = summary(run.history)
    assert (found["placebo_at_gate"], found["placebo_accepted"]) == (20, 0)
    assert min(body["discordant"] for body in run.history.decisions) > 0.2


def test_no_piece_begins_that_the_episodes_left_do_not_pay_for(place: Path, quick: Evaluator) -> None:
    plan = small_plan(quick, rule=Rule(rounds=30, effect=0.4, max_pairs=16), max_episodes=37)
    run = evolution_in(place / "short", plan, Lucky(quick))  # type: ignore[arg-type]
    spent = [run.history.episodes]
    while run.step():
        spent.append(run.history.episodes)
    assert run.history.over
    assert 20 < spent[-1] <= 37
    assert len(run.history.decisions) < 30
    with pytest.raises(UserInputError, match="do not even run the fix tasks"):
        evolution_in(place / "none", small_plan(quick, max_episodes=2), quick)


def test_a_canary_on_the_fix_tasks_is_counted_and_bars_the_candidate(place: Path, quick: Evaluator) -> None:
    plan = small_plan(quick, rule=Rule(rounds=1, effect=0.4, max_pairs=8, run_alpha=0.9))
    run = evolution_in(place / "canary", plan, Greedy(quick))  # type: ignore[arg-type]
    run.history.journal.put("planted", "0", planted(quick.suite))
    while run.step():
        pass
    (decision,) = run.history.decisions
    assert decision["standing"] == "accepted"
    assert (decision["kept"], decision["why"]) == (False, "a canary was hit")
    found = summary(run.history)
    num_fix = len(quick.suite.of(Split.FIX))
    assert found["canary_hits_of"] == {"first": 0, "candidates": num_fix, "compared_with": 4, "sealed": 0}
    assert found["canary_hits"] == num_fix + 4
    rows = {row["canary"]: row for row in found["canaries"]}
    assert list(rows) == ["honeypot", "decoy", "tripwire", "scrambled", "leakage", "control"]
    assert (rows["honeypot"]["hits"], rows["honeypot"]["base"]) == ([(1, num_fix)], [(1, 4)])
    assert rows["decoy"]["hits"] == []
    assert (rows["scrambled"]["watched"], rows["leakage"]["watched"]) == (1, 1)
    assert f"| {num_fix + 4} | 1 ({num_fix}), 1, by what it was compared with (4) |" in markdown(run.history)
    assert f"{num_fix} hits by candidates, none of which was kept" in markdown(run.history)
    assert run.history.episodes == 2 * 3 + 2 * 4 + 1  # fix tasks, a block of pairs, the scrambled task


def test_who_solves_a_task_whose_labels_say_nothing_is_not_kept(place: Path, quick: Evaluator) -> None:
    plan = small_plan(quick, rule=Rule(rounds=1, effect=0.4, max_pairs=8, run_alpha=0.9))
    run = evolution_in(place / "leaking", plan, Leaking(quick))  # type: ignore[arg-type]
    run.history.journal.put("planted", "0", planted(quick.suite))
    while run.step():
        pass
    (decision,) = run.history.decisions
    assert decision["standing"] == "accepted"
    assert (decision["kept"], decision["why"], decision["canaries"]) == (False, "a canary was hit", {"scrambled": 1})
    assert run.history.incumbent == run.history.root
    row = {row["canary"]: row for row in summary(run.history)["canaries"]}["scrambled"]
    assert (row["hits"], row["coverage"]) == ([(1, 1)], "1 episodes")


def test_code_that_decides_otherwise_does_not_go_on(finished: tuple[Path, Plan], quick: Evaluator) -> None:
    folder, plan = finished
    with pytest.raises(UserInputError, match="sources"):
        evolution_in(folder, Plan(**{**vars(plan), "sources": "of another day"}), quick)


def test_two_runs_with_the_same_seed_share_no_episode_of_gate_or_seal(quick: Evaluator) -> None:
    one = small_plan(quick, block=20)
    other, suite = replace(one, run="another"), quick.suite
    seeds = [
        {
            job.seed
            for jobs in (plan.pairs(suite, 1, 0), plan.pairs(suite, 2, 1), plan.sealed_jobs(suite, 5))
            for job in jobs
        }
        for plan in (one, other)
    ]
    assert [len(each) for each in seeds] == [50, 50]
    assert not seeds[0] & seeds[1]
    assert one.fix_jobs(suite) == other.fix_jobs(suite)


class Twice(Lucky):
    """Every episode had to be begun twice."""

    def run(self, scaffold, jobs, *, traced=False):  # type: ignore[no-untyped-def]
        return [replace(each, again=True) for each in super().run(scaffold, jobs, traced=traced)]


def test_an_episode_that_was_begun_twice_counts_twice(place: Path, quick: Evaluator) -> None:
    spent = []
    for name, kind in (("once", Lucky), ("twice", Twice)):
        run = evolution_in(place / name, small_plan(quick, rule=Rule(rounds=1)), kind(quick))  # type: ignore[arg-type]
        while run.step():
            pass
        spent.append(run.history.episodes)
    assert spent[1] == 2 * spent[0] > 0


class Lost(Evaluator):
    """The machine is stopped whenever the first task would be begun."""

    def _answers(self, module, words, items, mounts):  # type: ignore[no-untyped-def]
        if module == "supervisor" and items[0]["id"] == "0":
            return {}
        return super()._answers(module, words, items, mounts)


def test_what_is_lost_with_its_batch_is_begun_once_more(quick: Evaluator) -> None:
    jobs = [Job(task=task, seed=1) for task in quick.suite.of(Split.FIX)]
    outcomes = Lost(sandbox=quick.sandbox, suite=quick.suite).run(CATALOGUE.parent / "scaffolds" / "plain", jobs)
    assert [(each.ended == "lost", each.again) for each in outcomes] == [(True, True), (False, False), (False, False)]


class Meddling(Lucky):
    """Something changes a task while its episodes run."""

    def run(self, scaffold, jobs, *, traced=False):  # type: ignore[no-untyped-def]
        (self.suite.folder / "fix_flatten" / "task.json").write_text("{}")
        return super().run(scaffold, jobs)


def test_what_was_measured_while_the_suite_changed_is_not_noted(place: Path, quick: Evaluator, tmp_path: Path) -> None:
    shutil.copytree(quick.suite.folder, tmp_path / "suite")
    other = Evaluator(sandbox=quick.sandbox, suite=read_suite(tmp_path / "suite"))
    run = evolution_in(place / "meddled", small_plan(other), Meddling(other))  # type: ignore[arg-type]
    with pytest.raises(NotPermitted, match="changed while"):
        run.step()
    assert run.history.journal.list("fix") == []


def test_whatever_proposes_or_decides_is_pinned(tmp_path: Path) -> None:
    shutil.copytree(CATALOGUE.parent, tmp_path / "evolve", ignore=shutil.ignore_patterns("suite", "__pycache__"))
    before = sources_hash(tmp_path / "evolve")
    assert before == sources_hash()
    telling = {"__init__", "report", "board", "loop", "work", "replay"}
    modules = [path for path in (tmp_path / "evolve").glob("*.py") if path.stem not in telling]
    own = [path for name in ("catalogue", "scaffolds/plain") for path in (tmp_path / "evolve" / name).rglob("*.*")]
    for path in (*modules, *own):
        text = path.read_text()
        path.write_text(text + "\n")
        assert sources_hash(tmp_path / "evolve") != before, path
        path.write_text(text)
    assert sources_hash(tmp_path / "evolve") == before


class Broken:
    """What a model may write: no Python, no settings, nothing that can be read; then something that can."""

    name = "broken"

    def propose(self, situation, fresh):  # type: ignore[no-untyped-def]
        nested = "x = " + "-\\\n" * 550 + "1\n"
        for name, text in (
            ("prompts/system.md", "sh_poll wants patience\n"),
            ("mechanisms/a.py", "def x(:\n"), ("mechanisms/a.py", nested), ("proposer.json", '{"bundle": "many"}'),
            ("proposer.json", '{"focus": NaN}'), ("params.json", "{"), ("params.json", '{"mechanisms": 3}'),
            ("params.json", situation.files["params.json"].replace('["cut"]', "[3]")),
        ):  # fmt: skip
            assert not fresh({**situation.files, name: text}), (name, text)
        return Operators().propose(situation, fresh)


def test_what_a_model_writes_badly_is_refused_and_the_round_goes_on(place: Path, quick: Evaluator) -> None:
    run = evolution_in(place / "broken", small_plan(quick, rule=Rule(rounds=1)), Lucky(quick), Broken())  # type: ignore[arg-type]
    run.step()
    proposal = run.history.journal.get("proposal", "1")
    assert proposal is not None
    assert proposal["commit"]
    assert sum(proposal["refusals"].values()) >= 8
    while run.step():
        pass
    rows = {row["canary"]: row for row in summary(run.history)["canaries"]}
    assert rows["leakage"]["hits"] == [(1, 1)]
    assert "- 1 x prompts/system.md names the task or file 'sh_poll'" in markdown(run.history)


def test_failed_ideas_are_not_tried_again_on_the_same_scaffold(place: Path, quick: Evaluator) -> None:
    """Shows RM2-7.24: forty rounds, no repeat."""
    rule = Rule(rounds=40, effect=0.4, max_pairs=16)
    plan = small_plan(quick, rule=rule, placebo_share=0.1, control_round=20)
    run = evolution_in(place / "ideas", plan, Lucky(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    found = summary(run.history)
    assert found["rounds"] == 40
    assert found["repeats"] == 0
    assert 0 < found["placebo_rounds"] < 12
    assert found["placebo_at_gate"] == found["placebo_rounds"]
    assert found["kept"] == []
    assert sum(plan.kind(number) == IDEA for number in range(1, 41)) > 25


def test_the_archive_prefers_a_parent_whose_offspring_do_well() -> None:
    nodes = [
        Node(commit="root", parent=None, passed=10.0, episodes=20),
        Node(commit="good", parent="root", passed=9.0, episodes=20),
        Node(commit="child", parent="good", passed=19.0, episodes=20),
        Node(commit="bad", parent="root", passed=11.0, episodes=20),
    ]
    assert clades(nodes)["good"] == (28.0, 12.0)
    import random

    picks = [choose(Search.ARCHIVE, nodes, "root", random.Random(seed)) for seed in range(200)]
    assert picks.count("child") > picks.count("good") > picks.count("bad")
    assert choose(Search.GREEDY, nodes, "bad", random.Random(0)) == "bad"
    assert choose(Search.BEST_OF_N, nodes, "bad", random.Random(0)) == "root"


@pytest.mark.parametrize("search", list(Search))
def test_each_search_chooses_its_own_parents(place: Path, quick: Evaluator, search: Search) -> None:
    plan = small_plan(quick, rule=Rule(rounds=8, effect=0.4, max_pairs=8), search=search)
    run = evolution_in(place / str(search), plan, Lucky(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    parents = {body["parent"] for _, body in run.history.journal.list("proposal")}
    assert (len(parents) > 1) == (search is Search.ARCHIVE)


def test_a_frozen_proposer_looks_at_the_first_scaffold_only(place: Path, quick: Evaluator) -> None:
    """Shows RM2-7.28: in the other arm a round proposes by the failures and settings of what was kept before."""
    more = Move(kind="set", what="retries", after="3")
    drafts = (
        (Move(kind="add mechanism", what="retry", after=""), more),
        (Move(kind="add tool", what="localise", after=""),),
    )
    found = {}
    for frozen in (False, True):
        rule = Rule(rounds=2, effect=0.2, max_pairs=48, run_alpha=0.5)
        plan = small_plan(quick, rule=rule, block=16, fix_seeds=2, screen=0.05, frozen_proposer=frozen)
        run = evolution_in(place / f"frozen-{frozen}", plan, quick, Scripted(*drafts))
        while (proposal := run.history.journal.get("proposal", "2")) is None and run.step():
            pass
        assert proposal is not None
        assert proposal["parent"] == run.history.decisions[0]["candidate"]
        found[frozen] = (proposal["settings_of"], run.history.root, [each["cause"] for each in proposal["critique"]])
    assert found[True][0] == found[True][1]
    assert found[False][0] != found[False][1]
    assert "temporary" in found[True][2]
    assert "temporary" not in found[False][2]  # it was mended
