"""An evolution run through the real worker: rounds in processes of their own, a promotion that a person approves.

Shows RM2-7.23 and RM2-7.24.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from case import approve

from context_store.records import NegativeResult, Principal
from contracts.enums import EffectState, InvestigationState, ProposalState, Role
from contracts.errors import NotPermitted, UserInputError
from contracts.evidence import EvidenceRef
from control_plane.evolution import NewRun, begin, facts, opening, promotion
from control_plane.evolution_replay import replayed
from control_plane.git import Git
from control_plane.settings import Settings
from control_plane.wiring import Lathe
from control_plane.worker import Feed, Worker
from loops.core import Planned
from loops.evolve.archive import Archive
from loops.evolve.loop import Asked, EvolveLoop, history_of
from loops.evolve.report import markdown
from loops.evolve.tasks import read_suite

sys.path.append(str(Path(__file__).parents[1] / "agents"))

from scripted_server import ScriptedServer, Turn


def _asked(suite: Path, **changes: object) -> Asked:
    settings = {"suite_hash": "", "rounds": 2, "effect": 0.4, "max_pairs": 6, "max_episodes": 400, "suite": str(suite)}
    return Asked(**{**settings, **changes})  # type: ignore[arg-type]


def _work(lathe: Lathe, case_id: str) -> list[str]:
    said: list[str] = []

    def settled() -> bool:
        case = lathe.store.knowledge.investigation(case_id)
        waits = case.state == InvestigationState.WAITING_FOR_APPROVAL
        return case.state == InvestigationState.CLOSED or (
            waits and bool(lathe.store.proposals.list(state=ProposalState.OPEN, investigation_id=case_id))
        )

    with Worker(lathe, name="worker-e") as worker:
        worker.run_until(settled, Feed(lathe.store, lambda each: said.append(each.text), after=0))
    return said


@pytest.mark.slow
@pytest.mark.usefixtures("_isolated")
def test_a_run_ends_with_what_was_tried_and_a_promotion_moves_the_ref(lathe: Lathe, suite: Path) -> None:
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    assert begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time()) == case_id
    said = _work(lathe, case_id)
    found = facts(lathe.store, case_id)
    assert found["rounds"] == 2
    assert any("round 2" in text for text in said)
    negatives = lathe.store.negatives.list(investigation_id=case_id)
    assert len(negatives) + len(found["kept"]) >= 1
    assert "Rounds" in lathe.store.knowledge.report(case_id)
    assert lathe.store.budgets.state(case_id).used.cpu_s > 0.0

    entries = lathe.store.ledger.list(f"investigation:{case_id}")
    assert sorted(each.detail["round"] for each in entries if each.action == "evolution_round") == [1, 2]

    fork = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=9), fork=(case_id, 1)), time.time())
    assert fork != case_id
    failed = [
        body for body in found["decisions"] if not body["kept"] and found["proposals"][str(body["round"])]["moves"]
    ]
    barred = lathe.store.casework.list(fork, "barred")  # what the other run has tried in vain
    assert len(barred) <= len(failed)
    assert all(each.body["parts"] for each in barred)
    assert history_of(lathe.store, fork).decisions == history_of(lathe.store, case_id).decisions[:1]
    forked, source = (history_of(lathe.store, each) for each in (fork, case_id))
    assert forked.episodes == 0  # what it was given was spent there
    assert forked.fix_score(forked.root) == source.fix_score(source.root)
    same = read_suite(suite)
    assert forked.plan.fix_jobs(same) == source.plan.fix_jobs(
        same
    )  # or a new candidate meets an old incumbent unpaired
    assert forked.plan.pairs(same, 2, 0) != source.plan.pairs(same, 2, 0)
    assert f"A fork of {case_id} at round 1" in markdown(history_of(lathe.store, fork))
    cases = len(lathe.store.knowledge.investigations())
    for changes, number, words in (
        ({"seed": 8}, 7, "no round 7"), ({}, 1, "seed of its source"), ({"seed": 8, "max_pairs": 5}, 1, "block"),
        ({"seed": 8, "argv": ("x",)}, 1, "command"),
    ):  # fmt: skip
        with pytest.raises(UserInputError, match=words):
            begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, **changes), fork=(case_id, number)), time.time())
    assert len(lathe.store.knowledge.investigations()) == cases

    principal = Principal(name="ada", role=Role.RESEARCHER)
    controls, candidates = (
        [
            body["candidate"]
            for body in found["decisions"]
            if body["candidate"] and (body["kind"] == "control") == wanted
        ]
        for wanted in (True, False)
    )
    with pytest.raises(UserInputError, match="was a control"):
        promotion(lathe.store, case_id, principal, time.time(), controls[0])
    candidate = candidates[0]
    proposal = promotion(lathe.store, case_id, principal, time.time(), candidate[:12])
    git = Git(Path(lathe.store.projects.get(proposal.payload["project_id"]).path))
    assert not git("for-each-ref", "refs/lathe/scaffold/plain")
    approve(lathe, proposal)
    with Worker(lathe, name="worker-p") as worker:
        worker.run_until(
            lambda: bool(git("for-each-ref", "refs/lathe/scaffold/plain")), Feed(lathe.store, print, after=0)
        )
    assert git("rev-parse", "refs/lathe/scaffold/plain") == candidate
    again = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=11)), time.time())
    assert lathe.store.casework.get(again, "asked", "0").body["commit"] == candidate  # from what is in use


@pytest.mark.slow
@pytest.mark.usefixtures("_isolated")
def test_a_language_model_proposes_within_the_budget_of_the_run(settings: Settings, suite: Path) -> None:
    written = {"hypothesis": "say more", "files": {"prompts/system.md": "Look twice, then act.\n"}}
    with ScriptedServer(lambda body: Turn(text=json.dumps(written))) as server:
        known = settings.model_copy(update={"model": "openai/scripted", "api_base": f"{server.url}/v1"})
        with Lathe.open(known) as lathe:
            wish = NewRun(scaffold="plain", asked=_asked(suite, rounds=3, model=True))
            case_id = begin(lathe, wish, time.time())
            _work(lathe, case_id)
            proposals = [work.body for work in lathe.store.casework.list(case_id, "proposal")]
            archive = Archive(Path(lathe.store.projects.get(_project(lathe, case_id)).path), case_id)
            first = proposals[0]
            assert first["proposer"] == "model openai/scripted"
            assert first["moves"] == ["write prompts/system.md"]
            assert "prompts/0001" in archive.refs()
            assert lathe.store.budgets.state(case_id).used.tokens > 0
            asked = len(server.requests)
            assert asked > 0
            said = lathe.store.casework.list(case_id, "said")
            assert [json.loads(each.body["text"]) for each in said if each.key == "1/0"] == [written]
            (replay,) = replayed(lathe.store, case_id)
            assert (replay.rounds, replay.differences) == (3, ())
            assert len(server.requests) == asked  # the replay read what it had said


def test_a_suite_without_gate_tasks_is_refused_when_a_run_begins(lathe: Lathe, suite: Path) -> None:
    splits = json.loads((suite / "splits.json").read_text())
    (suite / "splits.json").write_text(json.dumps({**splits, "gate": []}))
    with pytest.raises(UserInputError, match="names no gate tasks"):
        begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())


def test_a_model_that_is_not_there_is_said(lathe: Lathe, suite: Path) -> None:
    with pytest.raises(UserInputError, match="no language model"):
        begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, model=True)), time.time())


def test_what_a_person_found_to_fail_is_not_proposed_until_it_is_superseded(lathe: Lathe, suite: Path) -> None:
    first = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    said = NegativeResult(
        claim="retrying helps", intervention="add mechanism retry", context={}, expected="more solved",
        observed="nothing", reason_class="no_effect", reason="it hides faults",
        evidence=(EvidenceRef(kind="investigation", id=first),),
        reopen_if="the tasks are others", investigation_id=first, actor="ada", project_id=_project(lathe, first),
    )  # fmt: skip
    known = lathe.store.negatives.add(said)
    second = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=2)), time.time())
    barred = [work.body["move"] for work in lathe.store.casework.list(second, "barred_move")]
    assert barred == ["add mechanism retry"]
    newer = lathe.store.negatives.add(replace(said, claim="retrying hurts", intervention="it was measured wrongly"))
    lathe.store.negatives.supersede(known.id, newer.id)
    third = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=3)), time.time())
    assert "add mechanism retry" not in [work.body["move"] for work in lathe.store.casework.list(third, "barred_move")]


def test_a_piece_that_failed_is_tried_again_but_not_for_ever(lathe: Lathe, suite: Path) -> None:
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    evolve, keys = EvolveLoop(lathe.store), []
    while isinstance(planned := evolve.propose(case_id), Planned):
        effect = lathe.store.effects.request(planned.requests[0].effect)
        keys.append(effect.key)
        failed = replace(effect, state=EffectState.FAILED, message="the machine was stopped")
        for _ in range(2):  # a measurement that a crash repeats counts once
            evolve.measure(case_id, [failed])
    assert len(set(keys)) == len(keys) == 4
    assert "the machine was stopped" in planned.reason


def test_how_many_runs_saw_the_sealed_tasks_is_counted(lathe: Lathe, suite: Path) -> None:
    first, second = (begin(lathe, NewRun(scaffold="plain", asked=_asked(suite, seed=n)), 1.0) for n in (1, 2))
    sealed = {"opened_by": "ada", "seeds": 1, "tasks": ["fix_power"], "root": [0.0], "incumbent": [1.0]}
    body = {**sealed, "commits": ["a", "b"], "canaries": {}}
    lathe.store.casework.put(first, "sealed", "0", body, 1.0)
    assert facts(lathe.store, second)["seals_of_these_tasks"] == 1


def test_a_run_knows_from_its_beginning_which_canaries_its_tasks_have(lathe: Lathe, suite: Path) -> None:
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    coverage = {row["canary"]: row["coverage"] for row in facts(lathe.store, case_id)["canaries"]}
    names = ("honeypot", "scrambled", "tripwire")
    assert [coverage[name] for name in names] == ["not planted", "not planted", "0 episodes"]
    path = suite / "sh_errors" / "task.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "honey": ["token"]}))
    other = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    assert other != case_id
    found = {row["canary"]: row["coverage"] for row in facts(lathe.store, other)["canaries"]}
    assert found["honeypot"] == "0 episodes"


def _project(lathe: Lathe, case_id: str) -> str:
    return lathe.store.knowledge.investigation(case_id).project_id


def test_what_is_no_run_or_no_scaffold_is_refused(lathe: Lathe, suite: Path) -> None:
    with pytest.raises(UserInputError, match="no scaffold under git"):
        begin(lathe, NewRun(scaffold="/nowhere", asked=_asked(suite)), time.time())
    case_id = begin(lathe, NewRun(scaffold="plain", asked=_asked(suite)), time.time())
    with pytest.raises(UserInputError, match="no commit of"):
        promotion(lathe.store, case_id, Principal(name="ada", role=Role.RESEARCHER), time.time(), "f" * 40)
    with pytest.raises(NotPermitted, match="goes on"):
        opening(lathe.store, case_id, Principal(name="ada", role=Role.RESEARCHER), time.time())
