"""The potential loop on a really trained small run: measured, judged, remembered, and open down to the raw outputs.

Shows R801-2.4, R801-4.1, R801-4.3, R801-4.14.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from langgraph.checkpoint.memory import InMemorySaver
from small_project import git

from context_store import Store
from context_store.file_hash import sha256_of
from context_store.records import Effect, NewRun, Proposal
from contracts.enums import EffectKind, EffectState, InvestigationState, Role, RunRole
from contracts.errors import NotFound, UserInputError
from control_plane.api.app import create_app
from control_plane.case_work import work_of
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from loops.core import Limits, Workplace
from loops.potential.comparison import compared, needed_by, sentences
from loops.potential.figures import draw
from loops.potential.loop import PotentialLoop
from loops.potential.opening import Wish, open_case
from loops.potential.plan import spread
from loops.potential.recipe.loop import RecipeLoop
from loops.potential.recipe.opening import Wish as RecipeWish
from loops.potential.recipe.opening import open_case as open_recipe_case
from loops.potential.recipe.plan import Candidate, RecipePlan, pilots
from loops.potential.tiny_sft import shared_cache
from loops.runner import CaseStatus, Runner

RUN = "run-1"
RECIPE = """from trainer import Recipe, TrainConfig

SIZE = {"model.num_layers": 1, "model.d_model": 16, "moe.num_experts": 2, "moe.top_k": 1, "moe.d_expert": 8}


def recipe() -> Recipe:
    config = TrainConfig().with_overrides(SIZE | {"steps": 40, "checkpoint.every": 20, "parallel.dp_size": 1,
                                                  "data.corpus_bytes": 400_000})
    return Recipe(config=config)
"""
WISH = Wish(run_id=RUN, seeds=2, num_items=6)


@pytest.fixture(scope="module")
def trained(new_database_url: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lathe]:
    """A run of the embedded trainer with checkpoints at steps 20 and 40."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "recipe.py").write_text(RECIPE)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    home = tmp_path_factory.mktemp("home")
    with Lathe.open(Settings(home=home, database_url=new_database_url(), backend="local", num_cpus=2)) as lathe:
        project = register_project(lathe.store, folder)
        wish = TrainingRequest(run_id=RUN, project=project, commit=git(folder, "rev-parse", "HEAD"))
        follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
        yield lathe


def in_process(lathe: Lathe) -> Callable[[], None]:
    """Carries out pieces of work here instead of in processes of their own."""

    def carry_out() -> None:
        effect = lathe.store.effects.claim("here", (EffectKind.CASE_WORK,), 60.0, time.time())
        assert effect is not None, "the loop waits for nothing"
        place = Workplace(
            store=lathe.store,
            case_id=str(effect.investigation_id),
            folder=lathe.settings.home / "cases" / str(effect.investigation_id),
            tell=lambda text: None,
            door=lambda: None,
        )
        loop = lathe.store.knowledge.investigation(place.case_id).loop
        answer = work_of(loop, effect.payload["work"])(place, effect.payload["arguments"])
        lathe.store.effects.complete(effect.key, {"answer": json.loads(json.dumps(answer))})

    return carry_out


@pytest.fixture(scope="module")
def measured(trained: Lathe) -> tuple[Lathe, str]:
    case_id = open_case(trained.store, WISH, time.time())
    runner_of(trained).start("potential", case_id)
    return trained, case_id


def runner_of(lathe: Lathe, wait: Callable[[], None] | None = None) -> Runner:
    """`wait` carries out what the loops ask for; without it pieces of work are done in this process."""
    loops = (PotentialLoop(lathe.store), RecipeLoop(lathe.store))
    return Runner(
        store=lathe.store,
        checkpointer=InMemorySaver(),
        loops={loop.name: loop for loop in loops},
        limits=Limits(cpu_s=10_000.0),
        wait=wait or in_process(lathe),
    )


def client_of(lathe: Lathe) -> TestClient:
    token = lathe.store.tokens.create("ada", Role.RESEARCHER)
    return TestClient(
        create_app(lathe.store), headers={"Authorization": f"Bearer {token}"}, base_url="http://127.0.0.1"
    )


def test_a_run_is_measured_judged_and_remembered(measured: tuple[Lathe, str], tmp_path: Path) -> None:
    lathe, case_id = measured
    store = lathe.store
    case = store.knowledge.investigation(case_id)
    assert case.state is InvestigationState.CLOSED
    assert case.run_id == RUN
    body = store.casework.list(case_id, "reading")[-1].body
    assert body["steps"] == [20, 40]
    assert len(body["base"]) == 2
    assert [len(row) for row in body["sft"]] == [2, 2]
    assert "base" in case.statement
    assert "after SFT" in case.statement
    (negative,) = store.negatives.list(investigation_id=case_id)
    assert negative.context["verdict"] == body["verdict"]["verdict"]
    assert any(ref.kind == "score" for ref in negative.evidence)
    report = store.knowledge.report(case_id)
    assert "## Learnability (experimental within one run" in report
    assert "compare trends, not levels" in report
    best = body["maximum"]["20"]
    assert set(best["means"]) >= {"ppl_acc_norm", "5_shot", "3_shot_cot", "0_shot_boxed"}
    assert best["value"] <= best["naive"] + 1e-9
    assert set(body["maximum_by_task"]["40"]) == {f"generated_{name}" for name in ("add", "order", "index", "repeat")}
    assert "8_shot_cot" in body["maximum_by_task"]["40"]["generated_add"]["means"]
    assert "8_shot_cot" not in body["maximum_by_task"]["40"]["generated_order"]["means"]
    draw(body, tmp_path / "potential.svg")
    assert "<svg" in (tmp_path / "potential.svg").read_text()


def test_scores_have_their_identity_and_open_to_raw_outputs(measured: tuple[Lathe, str]) -> None:
    lathe, case_id = measured
    scores = lathe.store.evals.list(run_id=RUN, benchmark="potential_suite")
    assert len(scores) == 2 * (1 + 2)
    by_how = {score.protocol.partition(":")[0].partition(".")[0] for score in scores}
    assert by_how == {"base", "tiny_sft"}
    bits = [score for score in lathe.store.evals.list(run_id=RUN) if score.metric == "bits_per_byte"]
    assert len(bits) == 2 * 3
    assert all(4.0 < score.value < 12.0 for score in bits)
    assert all(score.raw_sha256 == sha256_of(Path(score.raw)) for score in (*scores, *bits))
    assert {score.settings["first_token"] for score in scores} == {0, "none"}
    assert all(score.settings["threads"] > 0 and score.settings["batch_size"] == 32 for score in scores)
    client = client_of(lathe)
    found = client.get(f"/api/v1/potential/{case_id}").json()
    assert (found["measured"], found["pieces"]) == (6, 6)
    assert client.get("/api/v1/potential", params={"run_id": RUN}).json()["cases"][0]["id"] == case_id
    body = found["reading"]
    marks = [file for by_seed in body["marks_raw"].values() for files in by_seed for file in files]
    bits_files = [file for files in body["bits_raw"] for file in files.values()]
    fans = [file for best in body["maximum_sft"].values() for file in best["raw"].values()]
    assert (len(marks), len(bits_files), len(fans)) == (2 * 2 * 5, 2 * 3, 2 * 7)
    for file in (*marks, *bits_files, *fans):
        assert client.get(f"/api/v1/potential/{case_id}/outputs", params={"file": file}).json()["rows"]
    index = client.get(f"/api/v1/potential/{case_id}/outputs", params={"file": body["sft_raw"][0][0]})
    rows = client.get(f"/api/v1/potential/{case_id}/outputs", params={"file": index.json()["rows"][0]["file"]}).json()
    head, *outputs = rows["rows"]
    assert len(outputs) == 6
    assert head["accuracy"] == sum(output["right"] for output in outputs) / 6
    other = client.get(f"/api/v1/potential/{case_id}/outputs", params={"file": "/etc/passwd"})
    assert other.status_code == 404


def test_two_runs_are_compared_only_when_they_were_tuned_alike(measured: tuple[Lathe, str]) -> None:
    lathe, case_id = measured
    found = compared(lathe.store, RUN, RUN)
    assert found["slopes"][RUN]["value"] is not None
    assert found["crossing"]["budget"] is None
    assert sentences(found)
    with pytest.raises(NotFound):
        compared(lathe.store, RUN, "nobody")
    body = dict(lathe.store.casework.list(case_id, "reading")[-1].body)
    assert len(needed_by(body, 30.0)) == 2
    assert all("N*" in each for each in needed_by(body, 30.0))
    store, project = lathe.store, lathe.store.runs.get(RUN).project_id
    store.runs.create(NewRun(id="other", project_id=project, name="o", role=RunRole.TRAINING, folder=""))
    store.knowledge.open_case("other", project_id=project, loop="potential", title="t", at=0.0, run_id="other")
    store.casework.put("other", "plan", "plan", dict(store.casework.get(case_id, "plan", "plan").body), 0.0)
    store.casework.put("other", "reading", "r", body | {"data": {**body["data"], "exam": "another"}}, 0.0)
    with pytest.raises(UserInputError, match="tuned or asked differently"):
        compared(store, RUN, "other")


def test_the_same_wish_is_the_same_case_and_costs_nothing_again(measured: tuple[Lathe, str]) -> None:
    lathe, case_id = measured
    assert open_case(lathe.store, WISH, time.time()) == case_id
    other = open_case(lathe.store, Wish(run_id=RUN, seeds=3, num_items=6), time.time())
    assert other != case_id
    with pytest.raises(UserInputError, match="no checkpoint is of stage 'early'"):
        open_case(lathe.store, replace(WISH, epochs={"early": 2}), time.time())
    place = Workplace(store=lathe.store, case_id=other, folder=lathe.settings.cases_folder / other, tell=print,
                      door=lambda: None)  # fmt: skip
    cache = shared_cache(place.folder)
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    again = work_of("potential", "tune")(place, {"step": 20, "seed": 1})
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    assert again["score"] == lathe.store.casework.get(case_id, "tune", "20.1").body["score"]


def test_a_recipe_is_piloted_and_a_person_decides(measured: tuple[Lathe, str]) -> None:
    """The decision always shows both curves of the run (R801-4.18)."""
    trained, reading_case = measured
    store = trained.store
    wish = RecipeWish(
        run_id=RUN,
        changes=({"moe.balance.coef": 0.001}, {"optim.experts.lr": 0.0}),
        seeds=2,
        first_steps=4,
        num_items=6,
    )
    case_id = open_recipe_case(store, wish, time.time())
    runner = runner_of(trained)
    status = runner.start("recipe", case_id)
    assert status.status is CaseStatus.WAITING_FOR_APPROVAL
    record = store.casework.list(case_id, "decision")[-1].body
    assert record["choice"] in ("continue", "change")
    assert len(record["curves"]["base"]) == len(record["curves"]["sft"]) == 2
    assert "base" in record["sentence"]
    assert "after SFT" in record["sentence"]
    assert record["reading_case"] == reading_case
    rungs = {(each["rung"], each["candidate"]) for each in record["pilots"]}
    assert len([name for rung, name in rungs if rung == 0]) == 3
    assert len([name for rung, name in rungs if rung == 1]) == 2
    client = client_of(trained)
    for each in record["pilots"]:
        for file in (each["base_raw"], each["tiny_raw"], *each["bits_raw"].values()):
            assert client.get(f"/api/v1/potential/{case_id}/outputs", params={"file": file}).json()["rows"]
    (proposal,) = store.proposals.list(investigation_id=case_id)
    assert proposal.kind is {"continue": EffectKind.RESUME_WITH_PATCH, "change": EffectKind.START_RUN}[record["choice"]]
    assert f"investigation:{reading_case}" in {str(each) for each in proposal.evidence}
    assert "## Problems found, removed, carried over" in store.knowledge.report(case_id)
    store.proposals.reject(proposal.id, "ada", Role.REVIEWER, "not now", time.time())
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    told = [each.reason for each in store.negatives.list(investigation_id=case_id)]
    assert any("declined by ada: not now" in each for each in told)
    dropped = next(each for each in store.negatives.list(investigation_id=case_id) if "recipe_change" in each.context)
    change = {key: value for key, value in dropped.context.items() if "." in key}
    with pytest.raises(UserInputError, match="was tried before"):
        open_recipe_case(store, RecipeWish(run_id=RUN, changes=(change,)), time.time())
    wish = RecipeWish(run_id=RUN, changes=(change, {"moe.balance.coef": 0.003}), seeds=2, first_steps=2, num_rungs=1)
    again = open_recipe_case(store, replace(wish, num_items=5), time.time())
    tried = {each["name"] for each in store.casework.get(again, "plan", "plan").body["candidates"]}
    assert tried == {"unchanged", "moe.balance.coef=0.003"}
    put_pilots(store, again)
    runner.start("recipe", again)
    assert f"left out: {dropped.context['recipe_change']} was tried before" in store.knowledge.report(again)
    (proposal,) = store.proposals.list(investigation_id=again)
    assert f"negative:{dropped.id}" in {str(each) for each in proposal.evidence}


def test_without_a_reading_no_recipe_is_piloted(trained: Lathe) -> None:
    trained.store.runs.create(
        NewRun(id="unread", project_id=trained.store.runs.get(RUN).project_id, name="unread", role=RunRole.TRAINING,
               folder="")
    )  # fmt: skip
    with pytest.raises(NotFound) as refused:
        open_recipe_case(trained.store, RecipeWish(run_id="unread"), time.time())
    assert "lathe potential unread" in refused.value.remedy


def put_pilots(store: Store, case_id: str) -> None:
    """Every pilot of a plan as one that was trained, all equally good."""
    plan = RecipePlan.from_json(store.casework.get(case_id, "plan", "plan").body)
    for each in pilots(plan, 0, [one.name for one in plan.candidates]):
        body = asdict(each) | {"steps": plan.first_steps, "loss": 5.0, "problems": [], "base": 25.0, "tiny": 30.0}
        store.casework.put(case_id, "pilot", each.key, body, time.time())


def decided(lathe: Lathe, verdict: str) -> tuple[Runner, Proposal]:
    """What is proposed when pilots differ by nothing and the run's potential reads so."""
    executor = lathe.executor("worker-b")
    runner = runner_of(lathe, wait=lambda: time.sleep(0.0 if executor.step() else 0.1))
    store, project = lathe.store, lathe.store.runs.get(RUN).project_id
    found = {"steps": [20, 40], "tokens": [1, 2], "base": [25.0, 25.0], "sft": [[30.0, 31.0], [30.0, 31.0]],
             "verdict": {"verdict": verdict, "sentence": "base +0.0, after SFT +0.0"}}  # fmt: skip
    store.knowledge.open_case(f"read-{verdict}", project_id=project, loop="potential", title="t", at=0.0, run_id=RUN)
    store.casework.put(f"read-{verdict}", "reading", "r", found, time.time())
    tried = tuple(Candidate(name=name, overrides={}, why="w") for name in ("unchanged", "a"))
    plan = RecipePlan(run_id=RUN, candidates=tried, seeds=(1, 2), num_rungs=1, main_steps=40,
                      reading_case=f"read-{verdict}")  # fmt: skip
    case_id = f"recipe-{verdict}"
    store.knowledge.open_case(case_id, project_id=project, loop="recipe", title="t", at=time.time(), run_id=RUN)
    store.casework.put(case_id, "plan", "plan", plan.to_json(), time.time())
    put_pilots(store, case_id)
    assert runner.start("recipe", case_id).status is CaseStatus.WAITING_FOR_APPROVAL
    (proposal,) = store.proposals.list(investigation_id=case_id)
    return runner, proposal


def carried_out(store: Store, runner: Runner, proposal: Proposal) -> Effect:
    """Approved by a person, and done by an executor."""
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "both curves seen", time.time(), proposal.bound_hash)
    assert runner.resume(str(proposal.investigation_id)).status is CaseStatus.CLOSED
    return store.effects.get(f"apply:{proposal.id}")


def test_a_stop_is_put_before_a_person_too(trained: Lathe) -> None:
    lathe = trained
    runner, proposal = decided(lathe, "true_plateau")
    assert proposal.kind is EffectKind.STOP_RUN
    assert proposal.title == f"stop: end {RUN} at step 40"
    done = carried_out(lathe.store, runner, proposal)
    assert (done.state, done.result["last_step"]) == (EffectState.DONE, 40)
    told = [entry.title for entry in lathe.store.timeline.list(RUN)]
    assert any("was stopped" in each for each in told)


def test_what_cannot_be_measured_is_refused_with_a_remedy(lathe: Lathe, bad_run: object) -> None:
    with pytest.raises(UserInputError, match="not trained by the embedded trainer"):
        open_case(lathe.store, WISH, time.time())
    with pytest.raises(NotFound):
        open_case(lathe.store, Wish(run_id="nobody"), time.time())


def test_checkpoints_are_spread_within_the_number_that_is_paid_for() -> None:
    assert spread(range(10, 110, 10), 4) == (10, 40, 70, 100)
    assert spread([10, 20], 4) == (10, 20)
    assert spread([10, 20, 30], 1) == (30,)


def environment_of(lathe: Lathe) -> dict[str, str]:
    return {
        "LATHE_HOME": str(lathe.settings.home),
        "LATHE_DATABASE_URL": lathe.settings.database_url,
        "LATHE_BACKEND": "local",
    }


def test_lathe_evals_run_scores_a_checkpoint_under_chosen_protocols(
    trained: Lathe, run_lathe: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    chosen = ("--replay", "--protocol", "ppl_acc_norm", "--protocol", "0_shot_direct", "--items", 5, "--out", tmp_path)
    status, out, error = run_lathe(
        environment_of(trained), "evals", "run", "--json", "--run", RUN, "--step", 20, *chosen
    )
    assert status == 0, error
    rows, told = json.loads(out)["rows"], json.loads(out)["findings"]
    assert sum("equal to the byte" in each and "NOT" not in each for each in told) == 2
    assert [row["protocol"] for row in rows] == ["ppl_acc_norm", "0_shot_direct"]
    assert all(Path(row["raw"]).exists() for row in rows)
    status, _, error = run_lathe(environment_of(trained), "evals", "run", "--run", RUN, "--step", 20, "--task", "none")
    assert status == 2
    assert "one of: generated_add" in error
    status, out, _ = run_lathe(environment_of(trained), "evals", "plan", "avg5")
    assert status == 0
    assert "AA-LCR v1.1" in out
    assert "missing" in out
    status, _, error = run_lathe(environment_of(trained), "evals", "run")
    assert status == 2
    assert "--endpoint URL" in error


@pytest.mark.slow
def test_an_approved_decision_trains_the_recipe(measured: tuple[Lathe, str]) -> None:
    """Pilots in processes of their own, a person's approval, and the run that follows from it."""
    trained, _ = measured
    store, executor = trained.store, trained.executor("worker-a")
    wish = RecipeWish(
        run_id=RUN,
        changes=({"moe.z_loss.coef": 0.01},),
        seeds=2,
        first_steps=4,
        num_rungs=1,
        main_steps=20,
        num_items=6,
    )
    case_id = open_recipe_case(store, wish, time.time())
    runner = runner_of(trained, wait=lambda: time.sleep(0.0 if executor.step() else 0.1))
    assert runner.start("recipe", case_id).status is CaseStatus.WAITING_FOR_APPROVAL
    (proposal,) = store.proposals.list(investigation_id=case_id)
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "both curves seen", time.time(), proposal.bound_hash)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    run = store.runs.get(str(proposal.payload["run_id"]))
    goes_on = proposal.title.startswith("continue")  # the pilots of so small a model may speak for either
    assert (run.id == RUN, run.last_step) == (goes_on, 40 + 20 if goes_on else 20)
    assert store.runs.declared(run.id, 0)["model.d_model"] == 16


@pytest.mark.slow
def test_lathe_potential_works_through_processes_of_its_own(
    trained: Lathe, run_lathe: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    figure = tmp_path / "p.svg"
    arguments = ("potential", RUN, "--seeds", 2, "--items", 7, "--figure", figure)
    status, out, error = run_lathe(environment_of(trained), *arguments)
    assert status == 0, error
    assert "Learnability" in out
    assert figure.exists()


@pytest.mark.slow
def test_continue_goes_on_from_the_last_checkpoint(trained: Lathe) -> None:
    lathe = trained
    before = lathe.store.runs.segments(RUN)
    runner, proposal = decided(lathe, "false_plateau")
    begin = before[-1].last_step
    end = begin + 40
    assert proposal.title == f"continue: train {RUN} on from step {begin} to step {end}"
    done = carried_out(lathe.store, runner, proposal)
    assert (done.state, done.result["last_step"]) == (EffectState.DONE, end), done.message
    *earlier, last = lathe.store.runs.segments(RUN)
    assert earlier == before
    assert (last.start_step, last.last_step) == (begin, end)
    assert last.start_checkpoint == proposal.payload["start_checkpoint"]
    assert lathe.store.runs.declared(RUN, last.number)["steps"] == end
