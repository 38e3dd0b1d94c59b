"""Scores with full identity. Shows R801-2.10 (no lineage, no score), R801-9.1 and 10.4 (what may be compared)."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import psycopg
import pytest
from training_log import Training, steps

from context_store import Store
from context_store.evals import IDENTITY
from context_store.records import NewScore, Score
from contracts.errors import NotFound, UserInputError
from contracts.events import CheckpointSaved

_SAVED = (100, 200, 300, 400, 500)


def new_score(**more: Any) -> NewScore:
    fields: dict[str, Any] = {
        "project_id": "p",
        "run_id": "run-1",
        "segment": 0,
        "step": 100,
        "checkpoint": "sha-100",
        "recipe": "c0ffee",
        "benchmark": "gsm8k",
        "metric": "exact_match",
        "protocol": "generate_until",
        "shots": 5,
        "template": "qa",
        "stop_set": ("\n\n", "Q:"),
        "extractor": "strict",
        "harness": "lm-evaluation-harness",
        "harness_version": "0.4.9",
        "settings": {"temperature": 0.0, "limit": None, "deep": {"max_tokens": 512}},
        "value": 0.5,
        "stderr": 0.03,
        "num_samples": 200,
        "raw": str(Path(__file__)),  # a file that exists
        "raw_sha256": "abc",
        "owner": "ada",
        "at": 10.0,
    }
    return NewScore(**fields | more)


@pytest.fixture
def scored(store: Store, training: Training) -> Store:
    """Run-1 of code c0ffee, with checkpoints sha-100 to sha-500 at steps 100 to 500."""
    training.log(*steps(1, 2))
    training.log(*(CheckpointSaved(step=n, path=f"/c/{n}", sha256=f"sha-{n}", size_bytes=1) for n in _SAVED))
    training.ship()
    return store


def test_a_score_comes_back_whole_and_is_stored_once(scored: Store) -> None:
    score = scored.evals.add(new_score())
    assert scored.evals.add(new_score(at=99.0)) == score == scored.evals.get(score.id)
    kept = {field.name: getattr(score, field.name) for field in dataclasses.fields(NewScore)}
    assert kept == dataclasses.asdict(new_score(settings={"temperature": 0.0, "deep": {"max_tokens": 512}}))
    assert scored.evals.list(run_id="run-1", benchmark="gsm8k") == [score]
    assert scored.evals.list(benchmark="arc") == []
    (event,) = [each for each in scored.timeline.list("run-1") if each.kind == "eval"]
    assert (event.step, event.kind, event.detail["score"]) == (100, "eval", score.id)
    with pytest.raises(NotFound):
        scored.evals.get(999)


@pytest.mark.parametrize("field", ["checkpoint", "recipe", "protocol", "benchmark", "metric", "harness", "owner"])
def test_without_lineage_identity_or_owner_it_is_refused(scored: Store, field: str) -> None:
    with pytest.raises(UserInputError, match=field) as caught:
        scored.evals.add(new_score(**{field: " "}))
    assert "checkpoint" in caught.value.remedy
    assert scored.evals.list() == []


def test_a_run_without_a_step_and_an_unknown_run_are_refused(scored: Store) -> None:
    with pytest.raises(UserInputError, match="without a step"):
        scored.evals.add(new_score(step=None))
    with pytest.raises(NotFound, match="no run 'run-9'"):
        scored.evals.add(new_score(run_id="run-9"))
    with pytest.raises(NotFound, match="no project 'q'") as caught:
        scored.evals.add(new_score(project_id="q"))
    assert caught.value.remedy == "one of: p"


@pytest.mark.parametrize(
    ("field", "name", "told"),
    [("checkpoint", "sha-101", "weights"), ("recipe", "decade", "recipe"), ("raw", "/evals/no.jsonl", "outputs")],
)
def test_lineage_that_exists_nowhere_is_refused(scored: Store, field: str, name: str, told: str) -> None:
    """Shows R801-2.10: names alone are no lineage."""
    with pytest.raises(UserInputError, match=f"nothing here has the {told} '{name}'") as caught:
        scored.evals.add(new_score(**{field: name}))
    assert "stored run and step" in caught.value.remedy
    assert scored.evals.list() == []


def test_weights_and_recipe_by_path_and_by_a_log_that_names_them(scored: Store, tmp_path: Path) -> None:
    weights, recipe, log = (tmp_path / name for name in ("weights", "recipe.py", "results.json"))
    weights.mkdir()
    for file in (recipe, log):
        file.write_text("{}")
    elsewhere = {"run_id": None, "segment": None, "step": None}
    on_disk = new_score(checkpoint=str(weights), recipe=str(recipe), **elsewhere)
    assert scored.evals.add(on_disk).recipe == str(recipe)
    published = new_score(checkpoint="org/small", recipe="published:org/small", **elsewhere)
    with pytest.raises(UserInputError, match="weights 'org/small', nor the recipe"):
        scored.evals.add(published)
    assert scored.evals.add(published, log=str(log)).checkpoint == "org/small"
    with pytest.raises(UserInputError, match="recipe 'published:org/large'"):
        scored.evals.add(dataclasses.replace(published, recipe="published:org/large"), log=str(log))


def test_the_database_itself_refuses_a_score_without_lineage(scored: Store) -> None:
    scored.evals.add(new_score())
    with psycopg.connect(scored.url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE score SET recipe = ''")


OTHER = {
    "benchmark": "gsm8k_cot",
    "metric": "acc",
    "protocol": "multiple_choice",
    "shots": 0,
    "template": None,
    "stop_set": ("\n\n",),
    "extractor": "flexible",
    "harness": "inspect",
    "harness_version": "0.4.10",
    "settings": {"temperature": 0.6, "deep": {"max_tokens": 512}},
}


@pytest.mark.parametrize("field", IDENTITY)
def test_each_part_of_the_identity_keeps_scores_apart_and_is_named(scored: Store, field: str) -> None:
    a = scored.evals.add(new_score())
    b = scored.evals.add(new_score(checkpoint="sha-200", step=200, value=0.9, **{field: OTHER[field]}))
    found = scored.evals.compare(a.id, b.id)
    assert not found.comparable
    assert found.difference is None
    assert found.differs == ("settings.temperature" if field == "settings" else field,)
    assert field in found.reason
    assert a.identity_key != b.identity_key


def test_comparable_scores_have_a_difference_with_its_error(scored: Store) -> None:
    a = scored.evals.add(new_score(extractor=None))
    b = scored.evals.add(new_score(extractor=None, checkpoint="sha-200", step=200, value=0.6))
    found = scored.evals.compare(a.id, b.id)
    assert found.comparable
    assert (found.difference, found.stderr) == (pytest.approx(0.1), pytest.approx(math.hypot(0.03, 0.03)))
    assert found.unknown == ("extractor",)
    assert found.reason.endswith("neither says, so it is as lm-evaluation-harness 0.4.9 defines it: extractor")


def test_without_a_harness_version_nothing_says_that_two_scores_are_comparable(scored: Store) -> None:
    """What neither recorded is told apart: it may have been anything."""
    unsaid = {"harness_version": None, "template": None}
    a = scored.evals.add(new_score(**unsaid))
    b = scored.evals.add(new_score(**unsaid, checkpoint="sha-200", step=200, value=0.6))
    assert scored.evals.add(new_score(**unsaid, at=99.0)) == a, "still stored once"
    found = scored.evals.compare(a.id, b.id)
    assert (found.comparable, found.difference) == (False, None)
    assert found.unknown == ("template", "harness_version")
    assert (
        "not comparable: neither says which version of lm-evaluation-harness it was, which would define template"
        in found.reason
    )
    complete = [scored.evals.add(new_score(step=n, checkpoint=f"sha-{n}", value=n / 1000)) for n in (100, 200)]
    first, *apart = scored.evals.rank("gsm8k")
    assert [score.id for score in first.scores] == [complete[1].id, complete[0].id]
    assert [[score.id for score in group.scores] for group in apart] == [[a.id], [b.id]]
    assert all("template is qa in one and not recorded in the other" in group.apart for group in apart)


def test_ranking_never_mixes_what_is_not_comparable(scored: Store) -> None:
    for step, value in ((100, 0.5), (200, 0.7), (300, math.nan), (400, 0.6)):
        scored.evals.add(new_score(step=step, checkpoint=f"sha-{step}", value=value))
    scored.evals.add(new_score(step=500, checkpoint="sha-500", shots=0, value=0.99))
    first, apart = scored.evals.rank("gsm8k")
    assert [score.step for score in first.scores] == [200, 400, 100, 300]
    assert first.apart == ""
    assert [score.value for score in apart.scores] == [0.99]
    assert "shots is 5 in one and 0 in the other" in apart.apart
    lowest = scored.evals.rank("gsm8k", lowest_first=True)[0]
    assert [score.step for score in lowest.scores] == [100, 400, 200, 300]
    with pytest.raises(NotFound, match="no score") as caught:
        scored.evals.rank("unknown")
    assert caught.value.remedy == "there are scores of: gsm8k"


def test_secrets_in_settings_are_not_stored(scored: Store) -> None:
    key = "hf_" + "Ab1" * 12
    score: Score = scored.evals.add(new_score(settings={"model_args": {"token": key, "api_key": "abc"}, "n": [key]}))
    redacted = {"token": "[redacted field]", "api_key": "[redacted field]"}
    assert score.settings == {"model_args": redacted, "n": ["[redacted key]"]}
