"""The work of the potential loop, done in processes of its own: score a base checkpoint, or tune and score it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from context_store.file_hash import sha256_of
from context_store.records import Json, NewScore
from loops.core import Work, Workplace
from loops.evals.bits import Bits
from loops.evals.checkpoint_model import CheckpointModel
from loops.evals.protocol import protocol
from loops.evals.run import HARNESS, VERSION
from loops.potential.plan import SUITE_PROTOCOL, PotentialPlan
from loops.potential.scoring import Exam, fan_score, suite_score, text_bits
from loops.potential.subject import Subject, subject
from loops.potential.tiny_sft import Tuning, build_mix, shared_cache, tuned, tuned_config


def score_base(place: Workplace, arguments: Json) -> Json:
    """The checkpoint as it is."""
    plan, seen, exam = _opened(place, arguments)
    model = seen.model(seen.state())
    raw = place.folder / "raw" / f"{seen.step}.base"
    place.tell(f"scoring the base checkpoint at step {seen.step}")
    found = suite_score(exam, model, raw) | fan_score(exam, model, raw)
    bits = text_bits(exam, model, raw)
    found |= {
        "bits_per_byte": {each.text.name: each.value for each, _ in bits},
        "bits_raw": {each.text.name: str(path) for each, path in bits},
    }
    _store(place, seen, found, "base", {"exam": exam.digest, **model.facts})
    for each, path in bits:
        _store_bits(place, seen, each, path)
    return _signed(found, seen, plan)


def tune_and_score(place: Workplace, arguments: Json) -> Json:
    """The checkpoint after the plan's tiny SFT with one seed; learnability from its earlier marks."""
    plan, seen, exam = _opened(place, arguments)
    seed = int(arguments["seed"])
    examples, manifest = build_mix(plan.sft, exam.questions, place.folder)
    tuning = Tuning(trained_by=seen.trained_by, state=seen.state(), checkpoint=seen.sha256, stage=seen.stage, seed=seed)
    place.tell(f"tiny SFT of the checkpoint at step {seen.step}, seed {seed}")
    states = tuned(plan.sft, tuning, examples, shared_cache(place.folder), time.monotonic)
    config = tuned_config(plan.sft, tuning).config
    marks, found = [], {}
    for sft_step, state in states:
        model = CheckpointModel(f"{seen.run_id}@{seen.step}+sft{sft_step}", config, state.weights, starts=False)
        raw = place.folder / "raw" / f"{seen.step}.{seed}" / f"{sft_step}"
        found = suite_score(exam, model, raw)
        marks.append({"sft_step": sft_step, "score": found["score"], "raw": found["raw"]})
    found |= fan_score(exam, model, raw) | {"marks": marks}
    mix = {"exam": exam.digest, "sft": plan.sft.digest, "sft_data": manifest.sha256, "sft_seed": seed,
           "sft_steps": states[-1][0], **model.facts}  # fmt: skip
    _store(place, seen, found, f"tiny_sft.{plan.sft.digest[:12]}", mix)
    return _signed(found, seen, plan) | {
        "seed": seed,
        "shares": manifest.shares,
        "sft": plan.sft.digest,
        "sft_data": manifest.sha256,
        "exam": exam.digest,
    }


WORK: dict[str, Work] = {"base": score_base, "tune": tune_and_score}


def _opened(place: Workplace, arguments: Json) -> tuple[PotentialPlan, Subject, Exam]:
    plan = PotentialPlan.from_json(dict(place.store.casework.get(place.case_id, "plan", "plan").body))
    seen = subject(place.store, plan.run_id, int(arguments["step"]))
    return plan, seen, Exam.of(plan, seen.trained_by.config.data.corpus_bytes)


def _signed(found: dict[str, Any], seen: Subject, plan: PotentialPlan) -> dict[str, Any]:
    return found | {"step": seen.step, "tokens": seen.num_tokens, "checkpoint": seen.sha256, "stage": seen.stage}


def _store(place: Workplace, seen: Subject, found: dict[str, Any], how: str, settings: dict[str, Any]) -> None:
    """The suite's mean as a score with its whole identity."""
    lineage = place.store.evals.lineage_at(seen.run_id, seen.step)
    form = protocol(SUITE_PROTOCOL)
    case = place.store.knowledge.investigation(place.case_id)
    place.store.evals.add(
        NewScore(
            project_id=case.project_id,
            checkpoint=lineage.checkpoint,
            recipe=lineage.recipe,
            run_id=lineage.run_id,
            segment=lineage.segment,
            step=lineage.step,
            benchmark="potential_suite",
            metric="accuracy",
            protocol=f"{how}:{form.name}/{form.version}",
            shots=form.shots,
            template=form.template_digest,
            stop_set=form.stop,
            extractor=form.extractor,
            harness=HARNESS,
            harness_version=VERSION,
            settings={**settings, "protocol": form.digest, "start": str(form.start)},
            value=found["score"] / 100.0,
            num_samples=found["num_items"],
            owner=case.owner or "lathe",
            raw=str(Path(found["raw"])),
            raw_sha256=sha256_of(Path(found["raw"])),
        )
    )


def _store_bits(place: Workplace, seen: Subject, found: Bits, path: Path) -> None:
    lineage = place.store.evals.lineage_at(seen.run_id, seen.step)
    case = place.store.knowledge.investigation(place.case_id)
    place.store.evals.add(
        NewScore(
            project_id=case.project_id,
            value=found.value,
            stderr=found.stderr,
            num_samples=len(found.documents),
            owner=case.owner or "lathe",
            raw=str(path),
            raw_sha256=sha256_of(path),
            **found.identity,
            **asdict(lineage),
        )
    )
