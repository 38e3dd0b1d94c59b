"""What the store lacks, and who answers for what it has. Shows R801-2.2 (kinds with zero records are listed)."""

from __future__ import annotations

import pytest
from training_log import Training, make_run, started, steps

from context_store import Store
from context_store.records import NewRun, NewScore, Project
from contracts.enums import RunRole
from contracts.errors import NotFound, UserInputError
from contracts.events import CheckpointSaved, CodeExecuted, DataRead, Effective


def counts(store: Store, project: str | None = None) -> dict[str, int]:
    return {each.kind: each.count for each in store.completeness.report(project).kinds}


def test_an_empty_store_lacks_everything_and_says_how_to_fill_it(store: Store) -> None:
    report = store.completeness.report()
    assert report.missing == report.kinds
    assert all(each.remedy and each.what for each in report.kinds)
    assert len(report.kinds) > 30


def test_what_a_training_logs_is_counted_and_what_it_does_not_is_missing(training: Training) -> None:
    store = training.store
    values = {"loss": 1.0, "grad_norm/layers.1.attn": 1.0, "expert_load/layers.1/experts.2": 1.0}
    values |= {"z_loss/layers.1": 0.1}
    training.log(
        Effective(step=1, values={"optim.router.lr": 0.02, "data.mixture.web": 0.5}),
        DataRead(step=1, sample_hash="h", position=8),
        *steps(1, 5, values),
        Effective(step=4, values={"data.mixture.web": 0.6}),
        Effective(step=6, values={"optim.router.lr": 0.04, "data.mixture.web": 0.7, "environment.driver": "1"}),
        CheckpointSaved(step=5, path="/c/5", sha256="s", size_bytes=1),
        CodeExecuted(step=2, modules={"a.py": "sha"}, lines={}),
    )
    training.ship()
    found = counts(store, "p")
    filled = {"series": 4, "layer series": 3, "layer losses": 1, "gradient norms": 1, "expert load": 1, "config": 2}
    filled |= {"effective config": 6, "config changes": 1, "mixtures": 3, "mixture changes": 2, "data changes": 2}
    filled |= {"data order": 1, "environment": 1, "checkpoints": 1, "executed code": 1}
    assert {kind: count for kind, count in found.items() if count} == filled
    assert {"scores", "subsets", "verdicts", "hunk links"} <= {
        each.kind for each in store.completeness.report().missing
    }
    store.projects.put(Project(id="other", path="/other"))
    assert not any(counts(store, "other").values())
    store.evals.add(score_at(5))
    more = {kind: count for kind, count in counts(store, "p").items() if count != found[kind]}
    assert more == {"scores": 1, "checkpoint scores": 1, "evaluated data changes": 1}, "one of two is evaluated"


def score_at(step: int) -> NewScore:
    return NewScore(
        project_id="p", run_id="run-1", segment=0, step=step, checkpoint="s", recipe="c0ffee", benchmark="arc",
        metric="acc", protocol="multiple_choice", harness="h", value=0.5, owner="ada",
    )  # fmt: skip


def test_projects_without_an_owner_are_listed_until_one_is_named(store: Store) -> None:
    make_run(store)
    store.projects.put(Project(id="q", path="/q", owner="grace"))
    assert store.completeness.report().unowned == ("p",)
    assert store.completeness.report("q").unowned == ()
    assert store.projects.set_owner("p", " ada ").owner == "ada"
    store.projects.put(Project(id="p", path="/moved"))
    assert (store.projects.get("p").path, store.projects.get("p").owner) == ("/moved", "ada")
    assert store.completeness.report().unowned == ()
    store.runs.create(NewRun(id="r", project_id="p", name="r", role=RunRole.TRAINING, folder="/r"))
    assert store.why.of("run", "r").nodes[0].owner == "ada"
    with pytest.raises(UserInputError, match="name"):
        store.projects.set_owner("p", " ")
    with pytest.raises(NotFound):
        store.projects.set_owner("unknown", "ada")


def test_lines_that_come_later_do_not_forget_a_known_hash(training: Training) -> None:
    training.log(started(), CodeExecuted(step=2, modules={"a.py": "sha"}, lines={}), *steps(1, 2))
    training.log(CodeExecuted(step=4, modules={}, lines={"a.py": [3, 1]}))
    training.ship()
    executed = training.store.runs.executed("run-1", 0)
    assert executed.modules == {"a.py": "sha"}
    assert executed.lines == {"a.py": (1, 3)}
