"""Evaluation results with their identity, tables of experiments, and written lessons."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from import_writers import Import, read_all

from context_store import Store
from context_store.records import NewRun
from contracts.enums import RunRole
from contracts.events import CheckpointSaved, SegmentStarted, encode, segment_folder


def lm_eval(path: Path, **more: Any) -> Path:
    results = {
        "arc": {"alias": "arc", "acc,none": 0.25, "acc_stderr,none": 0.01, "f1,strict": 0.5, "f1_stderr,strict": "N/A"}
    }
    content = {
        "results": results,
        "versions": {"arc": 1},
        "n-shot": {"arc": 5},
        "n-samples": {"arc": {"original": 100, "effective": 90}},
        "config": {"model": "hf", "model_args": "pretrained=/ckpt/global_step340500", "limit": None},
        "git_hash": "abc",
        "date": 1700000000.5,
    }
    path.write_text(json.dumps(content | more))
    return path


def test_lm_eval_scores_stand_at_the_step_of_their_checkpoint(tmp_path: Path) -> None:
    (run,) = read_all(lm_eval(tmp_path / "results_x.json")).runs
    part = run.parts[0]
    assert part.series("acc/arc") == {340500: 0.25}
    assert part.series("acc_stderr/arc") == {340500: 0.01}
    assert part.series("f1.strict/arc") == {340500: 0.5}
    accuracy = next(fact for fact in run.facts if fact.detail["metric"] == "acc")
    assert accuracy.detail["n"] == 90
    assert accuracy.detail["identity"]["shots"] == 5
    assert accuracy.at == 1700000000.5


def test_another_version_or_shots_is_another_identity(tmp_path: Path) -> None:
    hashes = []
    for name, more in (("a", {}), ("b", {"n-shot": {"arc": 0}}), ("c", {"versions": {"arc": 2}}), ("d", {})):
        (run,) = read_all(lm_eval(tmp_path / f"{name}.json", **more)).runs
        hashes.append(run.facts[0].detail["identity_key"])
    assert len(set(hashes)) == 3
    assert hashes[0] == hashes[3]


def test_the_old_layout_without_a_step_gives_facts_and_no_points(tmp_path: Path) -> None:
    path = tmp_path / "bloom.json"
    path.write_text(
        json.dumps({"results": {"mrpc": {"acc": 0.6, "acc_stderr": 0.02, "ppl": 12.5}}, "versions": {"mrpc": 0}})
    )
    (run,) = read_all(path).runs
    assert run.parts[0].points == {}
    assert [(fact.detail["metric"], fact.detail["value"], fact.detail["step"]) for fact in run.facts] == [
        ("acc", 0.6, None),
        ("ppl", 12.5, None),
    ]


def inspect_content(status: str = "success") -> dict[str, Any]:
    metrics = {"accuracy": {"name": "accuracy", "value": 0.75}, "stderr": {"name": "stderr", "value": 0.05}}
    spec = {
        "task": "gsm8k",
        "task_version": 0,
        "model": "hf/ckpt/checkpoint-500",
        "created": "2026-01-01T00:00:00+00:00",
    }
    spec |= {"dataset": {"name": "gsm8k", "samples": 100}, "packages": {"inspect_ai": "0.3.1"}, "config": {"epochs": 1}}
    results = {"completed_samples": 80, "scores": [{"name": "match", "scorer": "match", "metrics": metrics}]}
    return {"version": 2, "status": status, "eval": spec, "results": results}


def test_inspect_logs_as_json_and_as_an_archive(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(inspect_content()))
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(inspect_content("cancelled")))
    runs = {Path(run.found.origin).suffix: run for run in read_all(tmp_path).runs}
    assert runs[".json"].parts[0].series("accuracy/gsm8k") == {500: 0.75}
    assert runs[".json"].parts[0].found.started_at == 1_767_225_600.0
    assert runs[".json"].facts[0].detail["stderr"] == 0.05
    assert "cancelled" in runs[".eval"].facts[-1].title
    (tmp_path / "log.eval").write_bytes((tmp_path / "log.eval").read_bytes()[:60])
    assert read_all(tmp_path / "log.eval").problems


TABLE = """commit\tval_bpb\tmemory_gb\tstatus\tdescription
base\t0.9979\t44.0\tkeep\tbaseline
a1\t0.9860\t43.9\tkeep\thalve batch 524K to 262K (more steps)
a2\t0.9867\t43.9\tdiscard\trandom seed 42 to 137
a3\t0.9900\t60.2\tdiscard\tmatrix LR 0.04 to 0.045
a4\t0.000000\t0.0\tcrash\tdouble width
a5\t0.9857\t60.2\tkeep\twarmdown 0.5 to 0.7
a6\t3.215849\t60.2\tdiscard\ttie weights
a7\t0.9890\t60.2\tdiscard\tmatrix LR 0.04 to 0.045
"""


def test_a_table_of_experiments(tmp_path: Path) -> None:
    (tmp_path / "results.tsv").write_text(TABLE)
    (run,) = read_all(tmp_path).runs
    part = run.parts[0]
    scores = part.series("val_bpb")
    assert sorted(scores) == [1, 2, 3, 4, 6, 7, 8]  # the crash has no score: 0 is not the best
    assert min(scores.values()) == 0.9857
    by_intervention = {negative.intervention: negative for negative in run.negatives}
    assert by_intervention["double width"].reason_class == "crash"
    assert by_intervention["tie weights"].reason_class == "broken_run"
    assert by_intervention["matrix LR 0.04 to 0.045"].reason_class == "no_gain"
    assert len(run.negatives) == 5
    assert any("tried before as experiment 4" in fact.title for fact in run.facts)
    kept = {
        fact.step: fact.detail for fact in run.facts if fact.title.startswith("experiment") and "keep" in fact.title
    }
    assert "unproven" in kept[6]  # gained 0.0003, less than a change of the seed moved it
    assert "unproven" not in kept[2]


def test_lessons_and_incidents(tmp_path: Path) -> None:
    idea = {
        "id": "n-1",
        "idea": "clip gradients",
        "outcome": "rejected",
        "reason": "never acts",
        "numbers": {"bpb": [1, 2]},
        "date": "2026-01-08",
    }
    idea |= {"revisit_if": "norms exceed 1", "comparability_era": "A", "decided_by": "no effect"}
    incident: dict[str, Any] = {
        "id": "p-1",
        "symptom": "5% slower",
        "proven_cause": "one GPU",
        "cause_kind": "hardware",
    }
    incident["negative_results"] = [{"tried": "bandwidth test", "why_it_failed": "all equal"}]
    (tmp_path / "ideas.jsonl").write_text(json.dumps(idea) + "\n{broken\n")
    (tmp_path / "incidents.jsonl").write_text(json.dumps(incident) + "\n")
    content = read_all(tmp_path)
    ideas, incidents = content.runs
    assert ideas.negatives[0].reopen_if == "norms exceed 1"
    assert ideas.negatives[0].fact.at == 1767830400.0, "2026-01-08"
    assert incidents.negatives[0].fact.at == 0.0, "it does not say when"
    assert ideas.negatives[0].context["comparability_era"] == "A"
    assert incidents.facts[0].detail["proven_cause"] == "one GPU"
    assert incidents.negatives[0].intervention == "bandwidth test"
    assert content.problems[0].position == "line 2"


def test_a_log_of_a_stored_checkpoint_becomes_scores_and_others_are_refused(
    store: Store, tmp_path: Path, bring: Import
) -> None:
    """Shows R801-2.10: lineage is found by the checkpoint's path; a score without it stays a fact, with the reason."""
    path = lm_eval(tmp_path / "results_x.json")
    (tmp_path / "samples_arc_2026.jsonl").write_text('{"doc": 1}\n')
    (report,) = bring(path.parent, project="p").runs
    assert report.num_scores == 2
    assert store.evals.list() == []
    (note,) = [each for each in store.timeline.list(report.run_id) if "without lineage" in each.title]
    assert "'/ckpt/global_step340500' is not in the store" in note.title

    training(store, tmp_path, "/ckpt/global_step340500")
    bring(path.parent, project="p")
    strict, accuracy = sorted(store.evals.list(), key=lambda score: score.metric, reverse=True)
    assert (accuracy.run_id, accuracy.step, accuracy.checkpoint, accuracy.recipe) == ("t-1", 340500, "sha", "c0ffee")
    assert (accuracy.value, accuracy.stderr, accuracy.shots, accuracy.owner) == (0.25, 0.01, 5, "tester")
    assert accuracy.raw.endswith("samples_arc_2026.jsonl")
    assert len(accuracy.raw_sha256) == 64
    assert strict.extractor == "strict"
    bring(path.parent, project="p")
    assert len(store.evals.list()) == 2


def test_a_published_model_has_lineage_by_its_name(store: Store, tmp_path: Path, bring: Import) -> None:
    config = {"model": "hf", "model_args": "pretrained=EleutherAI/pythia-160m,revision=step3000,dtype=float32"}
    own = {"output_type": "generate_until", "doc_to_text": "{{q}}", "generation_kwargs": {"until": "\n"}}
    bring(lm_eval(tmp_path / "results_x.json", config=config, configs={"arc": own}, lm_eval_version="0.4.9"))
    score = store.evals.list(metric="acc")[0]
    assert score.checkpoint == "EleutherAI/pythia-160m@step3000"
    assert score.recipe == "published:EleutherAI/pythia-160m"
    assert (score.protocol, score.stop_set, score.harness_version) == ("generate_until", ("\n",), "0.4.9")
    assert score.settings["generation"] == {"until": "\n"}


def test_inspect_scores_carry_solver_template_and_stop_set(store: Store, tmp_path: Path, bring: Import) -> None:
    content = inspect_content()
    content["eval"]["model"] = "vllm/meta/small"
    steps = [{"solver": "prompt_template", "params": {"template": "Q: {prompt}"}}, {"solver": "generate", "params": {}}]
    content["plan"] = {"steps": steps, "config": {"temperature": 0.5, "stop_seqs": ["Q:"]}}
    (tmp_path / "log.json").write_text(json.dumps(content))
    bring(tmp_path / "log.json")
    (score,) = store.evals.list()
    assert (score.checkpoint, score.protocol) == ("meta/small", "prompt_template > generate")
    assert (score.stop_set, score.extractor, score.harness_version) == (("Q:",), "match", "0.3.1")
    assert score.template is not None
    assert score.settings["generation"] == {"temperature": 0.5}


def training(store: Store, folder: Path, checkpoint: str) -> None:
    """A run `t-1` that saved this checkpoint at step 340500."""
    run = NewRun(id="t-1", project_id="p", name="t", role=RunRole.TRAINING, folder=str(folder))
    store.runs.create(run)
    fields: dict[str, Any] = {"start_step": 0, "code_version": "c0ffee", "seed": 1, "dp_size": 1, "wall_time": 1.0}
    start = SegmentStarted(run_id="t-1", segment=0, start_checkpoint="", config={}, environment={}, **fields)
    saved = CheckpointSaved(step=340500, path=checkpoint, sha256="sha", size_bytes=1)
    log = segment_folder(folder / "t-1", 0) / "events.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(encode(start) + encode(saved))
    store.ingest.ship("t-1", folder / "t-1")
