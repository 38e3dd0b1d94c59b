"""Rounds of a run: killed at any piece they decide the same, they replay offline, and nothing unproven is kept.

Shows RM2-7.23, RM2-7.24 and RM2-7.28.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import NotPermitted, UserInputError
from loops.evolve.acceptance import Rule
from loops.evolve.archive import Archive, read_files
from loops.evolve.evaluation import Evaluator, Job, Outcome
from loops.evolve.journal import FolderJournal, Mended
from loops.evolve.operators import CATALOGUE, Move, apply
from loops.evolve.parents import Node, Search, choose, clades
from loops.evolve.plan import IDEA, Plan
from loops.evolve.proposer import Draft, Operators
from loops.evolve.replay import differences
from loops.evolve.report import gain, markdown, summary
from loops.evolve.rounds import Evolution
from loops.evolve.surface import params_of
from loops.evolve.tasks import Split

GRAPH = """
import importlib, json
from pathlib import Path

HERE = Path(__file__).parent


class Loop:
    def __init__(self, desk):
        self.desk = desk

    def invoke(self, state, config):
        desk, params = self.desk, json.loads((HERE / "params.json").read_text())
        kinds = [importlib.import_module(f"mechanisms.{name}") for name in params["mechanisms"]]
        mechanisms = [kind.Mechanism(params, desk) for kind in kinds]
        skills = [(HERE / "skills" / f"{name}.md").read_text() for name in params["skills"]]
        texts = ["\\n".join(skills), f"TASK {desk.task}\\n\\n"]
        while True:
            view = [{"role": "user", "text": text} for text in texts]
            action = desk.ask(view, params["tools"], params["temperature"])
            text = desk.tool(action["tool"], action["args"])
            for each in mechanisms:
                text = each.after(action, text)
            texts.append(text)


def build(desk):
    return Loop(desk)
"""
FILES = {**read_files(CATALOGUE.parent / "scaffolds" / "plain"), "graph.py": GRAPH}  # a loop is quicker than a graph


class Scripted:
    """Proposes these changes, one a round; a proposer of equal standing."""

    name = "scripted"

    def __init__(self, *drafts: tuple[Move, ...]) -> None:
        self._drafts = drafts

    def propose(self, situation, fresh):  # type: ignore[no-untyped-def]
        for moves in self._drafts[(situation.number - 1) % len(self._drafts) :]:
            files = situation.files
            for move in moves:
                files = apply(files, move)
            if fresh(files):
                names = tuple(move.name for move in moves)
                return Draft(files=files, moves=names, hypothesis="; ".join(names), critique=tuple(situation.findings))
        return None


def _plan(quick: Evaluator, **changes: object) -> Plan:
    rule = Rule(rounds=2, effect=0.4, max_pairs=8, run_alpha=0.5)
    settings = {"rule": rule, "seed": 3, "placebo_share": 0.0, "block": 4, "fix_seeds": 1, "screen": -1.0, **changes}
    return Plan(run="test", suite_hash=quick.suite.hash, **settings)  # type: ignore[arg-type]


def _evolution(folder: Path, plan: Plan, quick: Evaluator, proposer: object = None) -> Evolution:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    archive = Archive.begin(folder / "archive.git", plan.run, FILES)
    return Evolution(
        plan, Mended(FolderJournal(folder / "journal.jsonl")), archive, quick, folder=folder / "commits",
        proposer=proposer or Operators(),
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(place: Path, quick: Evaluator) -> tuple[Path, Plan]:
    """A run that went through without a stop."""
    plan, folder = _plan(quick), place / "whole"
    run = _evolution(folder, plan, quick)
    while run.step():
        pass
    return folder, plan


def test_a_run_that_is_killed_after_every_piece_decides_the_same(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    whole, plan = finished
    while _evolution(place / "pieces", plan, quick).step():  # each piece by a new process's objects
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


def test_a_decision_that_a_crash_cut_off_from_its_evidence_is_taken_once_more(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    whole, plan = finished
    cut = place / "cut"
    shutil.copytree(whole, cut)
    lines = (cut / "journal.jsonl").read_text().splitlines(keepends=True)
    memory = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "memory"][-1]
    (cut / "journal.jsonl").write_text("".join(lines[:memory]))
    verdict = "refs/lathe/evolve/test/verdicts/0002"
    subprocess.run(["git", "update-ref", "-d", verdict], cwd=cut / "archive.git", check=True)
    run = _evolution(cut, plan, quick)
    assert len(run.history.decisions) == 1
    while run.step():
        pass
    journals = [FolderJournal(folder / "journal.jsonl") for folder in (whole, cut)]
    for kind in ("proposal", "block", "decision", "memory"):
        assert journals[0].list(kind) == journals[1].list(kind)
    refs = [Archive(folder / "archive.git", "test").refs() for folder in (whole, cut)]
    assert refs[0] == refs[1]


def _shown(repository: Path, name: str) -> str:
    """The message of a tag, or a blob."""
    text = subprocess.run(["git", "cat-file", "-p", name], cwd=repository, capture_output=True, check=True).stdout
    return text.decode().partition("\n\n")[2] or text.decode()


def test_a_run_replays_offline_to_the_same_decisions_and_hashes(
    finished: tuple[Path, Plan], tmp_path: Path, quick: Evaluator
) -> None:
    folder, _ = finished
    journal, archive = FolderJournal(folder / "journal.jsonl"), Archive(folder / "archive.git", "test")
    before = archive.refs()
    assert differences(journal, quick.suite, archive, tmp_path / "a") == []
    assert archive.refs() == before
    for number, (kind, key, changes) in enumerate(
        (
            ("decision", "1", {"kept": True}),
            ("proposal", "2", {"hypothesis": "another"}),
            ("plan", "0", {"sources": ""}),
        )
    ):
        other = _changed(journal, tmp_path / f"b{number}", kind, key, changes)
        assert differences(other, quick.suite, archive, tmp_path / f"c{number}") != []
    for number, (kind, key, changes) in enumerate(
        (("plan", "0", {"seed": 4}), ("block", "1/0", {"jobs": []}), ("plan", "0", {"suite_hash": "another"}))
    ):
        other = _changed(journal, tmp_path / f"d{number}", kind, key, changes)
        with pytest.raises(UserInputError, match=r"not measured|others than"):
            differences(other, quick.suite, archive, tmp_path / f"e{number}")


def _changed(journal: FolderJournal, folder: Path, kind: str, key: str, changes: dict[str, object]) -> FolderJournal:
    """The same journal with one entry that says something else."""
    other = FolderJournal(folder / "journal.jsonl")
    for each in ("plan", "root", "fix", "proposal", "block", "canary", "decision", "memory"):
        for name, body in journal.list(each):
            other.put(each, name, body | changes if (each, name) == (kind, key) else body)
    return other


def test_a_replay_knows_each_thing_when_the_run_came_to_know_it(place: Path, quick: Evaluator, tmp_path: Path) -> None:
    """What is measured later must not weigh in earlier: a budget that ends a run, and fix tasks of a kept placebo."""
    short = _plan(quick, rule=Rule(rounds=30, effect=0.4, max_pairs=16), max_episodes=37)
    placebos = _plan(quick, rule=Rule(rounds=4, run_alpha=0.95), placebo_share=0.5, search=Search.ARCHIVE)
    for name, plan, evaluator in (("rshort", short, Lucky(quick)), ("rplacebo", placebos, Changed(quick))):
        run = _evolution(place / name, plan, evaluator)  # type: ignore[arg-type]
        while run.step():
            pass
        archive = Archive(place / name / "archive.git", "test")
        assert run.history.decisions
        assert differences(run.history.journal, quick.suite, archive, tmp_path / name) == []
    kept = [body for body in run.history.decisions if body["kept"]]
    assert any(body["kind"] != IDEA and run.history.fix_score(body["candidate"]) is not None for body in kept)


def test_another_plan_or_suite_does_not_go_on(finished: tuple[Path, Plan], quick: Evaluator) -> None:
    folder, plan = finished
    with pytest.raises(UserInputError, match="rule"):
        _evolution(folder, Plan(**{**vars(plan), "rule": Rule(rounds=3)}), quick)


def test_the_seal_is_opened_once_and_only_at_the_end(
    finished: tuple[Path, Plan], place: Path, quick: Evaluator
) -> None:
    folder, plan = finished
    with pytest.raises(NotPermitted):
        _evolution(place / "sealed", plan, quick).open_seal("a person")
    run = _evolution(folder, plan, quick)
    body = run.open_seal("a person", seeds=1)
    assert run.open_seal("somebody else", seeds=9) == body
    assert -1.0 <= gain(body).low <= gain(body).high <= 1.0
    assert "Opened by a person" in markdown(run.history)
    sealed = summary(run.history)["sealed"]
    assert sealed["detectable"] == pytest.approx(0.8265 * (sealed["high"] - sealed["low"]), rel=1e-3)
    assert sealed["by_seed"]["first"] == [pytest.approx(sealed["first"])]


def test_a_real_gain_is_kept_and_shapes_the_next_round(place: Path, quick: Evaluator) -> None:
    """The second round is made on the commit that the first one kept; a repeat on the same scaffold is refused."""
    more = Move(kind="set", what="retries", after="3")
    retry = (Move(kind="add mechanism", what="retry", after=""), more)
    plan = _plan(
        quick, rule=Rule(rounds=2, effect=0.2, max_pairs=48, run_alpha=0.5), block=16, fix_seeds=2, screen=0.05
    )
    run = _evolution(place / "gain", plan, quick, Scripted(retry, (Move(kind="add skill", what="squeeze", after=""),)))
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
    plan = _plan(quick, rule=Rule(rounds=1, effect=0.3, max_pairs=16, run_alpha=0.5))
    run = _evolution(place / "harm", plan, quick, Scripted((Move(kind="remove tool", what="shell", after=""),)))
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
    plan = _plan(quick, rule=rule, placebo_share=0.5, control_round=2, screen=0.5, block=10, search=Search.BEST_OF_N)
    run = _evolution(place / "blind", plan, quick)
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
    plan = _plan(quick, rule=Rule(rounds=20, effect=0.3, max_pairs=40), placebo_share=1.0, block=20)
    run = _evolution(place / "coins", plan, Coins(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    found = summary(run.history)
    assert (found["placebo_at_gate"], found["placebo_accepted"]) == (20, 0)
    assert min(body["discordant"] for body in run.history.decisions) > 0.2


def test_no_piece_begins_that_the_episodes_left_do_not_pay_for(place: Path, quick: Evaluator) -> None:
    plan = _plan(quick, rule=Rule(rounds=30, effect=0.4, max_pairs=16), max_episodes=37)
    run = _evolution(place / "short", plan, Lucky(quick))  # type: ignore[arg-type]
    spent = [run.history.episodes]
    while run.step():
        spent.append(run.history.episodes)
    assert run.history.over
    assert 20 < spent[-1] <= 37
    assert len(run.history.decisions) < 30
    with pytest.raises(UserInputError, match="do not even run the fix tasks"):
        _evolution(place / "none", _plan(quick, max_episodes=2), quick)


def test_a_canary_on_the_fix_tasks_is_counted_and_bars_the_candidate(place: Path, quick: Evaluator) -> None:
    plan = _plan(quick, rule=Rule(rounds=1, effect=0.4, max_pairs=8, run_alpha=0.9))
    run = _evolution(place / "canary", plan, Greedy(quick))  # type: ignore[arg-type]
    while run.step():
        pass
    (decision,) = run.history.decisions
    assert decision["standing"] == "accepted"
    assert (decision["kept"], decision["why"]) == (False, "a canary was hit")
    found = summary(run.history)
    assert found["canary_hits"] == len(quick.suite.of(Split.FIX))
    rows = {row["canary"]: row for row in found["canaries"]}
    assert list(rows) == ["honeypot", "decoy", "tripwire", "scrambled", "leakage", "control"]
    assert rows["honeypot"]["hits"] == [(1, found["canary_hits"])]
    assert rows["decoy"]["hits"] == []
    assert (rows["scrambled"]["watched"], rows["leakage"]["watched"]) == (1, 1)
    assert f"| {found['canary_hits']} | 1 ({found['canary_hits']}) |" in markdown(run.history)
    assert run.history.episodes == 2 * 3 + 2 * 4 + 1  # fix tasks, a block of pairs, the scrambled task


def test_code_that_decides_otherwise_does_not_go_on(finished: tuple[Path, Plan], quick: Evaluator) -> None:
    folder, plan = finished
    with pytest.raises(UserInputError, match="sources"):
        _evolution(folder, Plan(**{**vars(plan), "sources": "of another day"}), quick)


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
    run = _evolution(place / "broken", _plan(quick, rule=Rule(rounds=1)), Lucky(quick), Broken())  # type: ignore[arg-type]
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


class Lucky:
    """An evaluator by which nothing differs; for what does not depend on tasks."""

    def __init__(self, quick: Evaluator) -> None:
        self.suite = quick.suite

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        return [Outcome(job=job, score=1.0, why="", ended="submitted", asks=1, chars=1) for job in jobs]


class Changed(Lucky):
    """Whatever was changed solves every task but the scrambled one."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        changed = read_files(scaffold) != FILES and jobs[0].task != "ml_scrambled"
        return [replace(each, score=float(changed)) for each in super().run(scaffold, jobs)]


class Coins(Lucky):
    """Whether a task is solved depends on the seed alone."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        return [replace(each, score=float(each.job.seed % 2)) for each in super().run(scaffold, jobs)]


class Greedy(Lucky):
    """Its candidates read planted answers on the fix tasks and pass every pair."""

    def run(self, scaffold: Path, jobs: list[Job], *, traced: bool = False) -> list[Outcome]:
        changed = read_files(scaffold) != FILES
        found = super().run(scaffold, jobs)
        canaries = ("honeypot",) if traced and changed else ()
        scrambled = jobs[0].task == "ml_scrambled"
        return [replace(each, score=float(changed and not scrambled), canaries=canaries) for each in found]


def test_failed_ideas_are_not_tried_again_on_the_same_scaffold(place: Path, quick: Evaluator) -> None:
    """Shows RM2-7.24: forty rounds, no repeat."""
    rule = Rule(rounds=40, effect=0.4, max_pairs=16)
    plan = _plan(quick, rule=rule, placebo_share=0.1, control_round=20)
    run = _evolution(place / "ideas", plan, Lucky(quick))  # type: ignore[arg-type]
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
    plan = _plan(quick, rule=Rule(rounds=8, effect=0.4, max_pairs=8), search=search)
    run = _evolution(place / str(search), plan, Lucky(quick))  # type: ignore[arg-type]
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
        plan = _plan(quick, rule=rule, block=16, fix_seeds=2, screen=0.05, frozen_proposer=frozen)
        run = _evolution(place / f"frozen-{frozen}", plan, quick, Scripted(*drafts))
        while (proposal := run.history.journal.get("proposal", "2")) is None and run.step():
            pass
        assert proposal is not None
        assert proposal["parent"] == run.history.decisions[0]["candidate"]
        found[frozen] = (proposal["settings_of"], run.history.root, [each["cause"] for each in proposal["critique"]])
    assert found[True][0] == found[True][1]
    assert found[False][0] != found[False][1]
    assert "temporary" in found[True][2]
    assert "temporary" not in found[False][2]  # it was mended
