"""The work of the recipe loop: one pilot, trained, tuned by the same tiny SFT, and scored, in a process of its own."""

from __future__ import annotations

import time
from dataclasses import replace

from context_store.canonical import content_hash
from context_store.records import Json
from loops.core import Work, Workplace
from loops.evals.checkpoint_model import CheckpointModel
from loops.potential.plan import PotentialPlan, checkpoints
from loops.potential.recipe.plan import RecipePlan
from loops.potential.recipe.problems import problems_of
from loops.potential.scoring import Exam, suite_score, text_bits
from loops.potential.subject import subject
from loops.potential.tiny_sft import Tuning, build_mix, shared_cache, tuned, tuned_config
from trainer.checkpoint import save_checkpoint
from trainer.corpus import corpus_of
from trainer.recipe import Recipe
from trainer.training import Training


def pilot(place: Workplace, arguments: Json) -> Json:
    """Train a candidate from random weights for its rung's steps; the same seed for every candidate."""
    plan = RecipePlan.from_json(place.store.casework.get(place.case_id, "plan", "plan").body)
    name, rung, seed = str(arguments["candidate"]), int(arguments["rung"]), int(arguments["seed"])
    steps = plan.steps(rung)
    any_step = next(iter(checkpoints(place.store, plan.run_id)))
    declared = subject(place.store, plan.run_id, any_step).trained_by.config
    config = declared.with_overrides({**plan.candidate(name).overrides, "seed": seed, "steps": steps})
    place.tell(f"pilot {name}, seed {seed}: {steps} steps")
    training = Training(Recipe(config=config), corpus_of(config.data, config.model.vocab_size), None, time.monotonic)
    records = [training.advance().values for _ in range(steps)]
    state = replace(training.state(), optimizer={})
    own = content_hash([config.flat()])[:16]
    saved = save_checkpoint(state, place.folder / "pilots" / own)
    exam = Exam.of(PotentialPlan(run_id=plan.run_id, steps=(), num_items=plan.num_items), config.data.corpus_bytes)
    starts = config.data.documents == "stream"
    model = CheckpointModel(f"pilot {name} {seed}", config, state.weights, starts=starts)
    base = suite_score(exam, model, place.folder / "raw" / own / "base")
    bits = text_bits(exam, model, place.folder / "raw" / own / "base")
    examples, manifest = build_mix(plan.sft, exam.questions, place.folder)
    tuning = Tuning(trained_by=Recipe(config=config), state=state, checkpoint=saved.sha256, seed=seed)
    _, last = tuned(plan.sft, tuning, examples, shared_cache(place.folder), time.monotonic)[-1]
    tuned_model = CheckpointModel("tuned", tuned_config(plan.sft, tuning).config, last.weights, starts=False)
    tiny = suite_score(exam, tuned_model, place.folder / "raw" / own / "tiny")
    return {
        "candidate": name, "rung": rung, "seed": seed, "steps": steps, "checkpoint": saved.sha256,
        "loss": records[-1]["lm_loss"], "problems": problems_of(records),
        "bits_per_byte": {each.text.name: each.value for each, _ in bits},
        "bits_raw": {each.text.name: str(path) for each, path in bits},
        "base": base["score"], "tiny": tiny["score"], "base_raw": base["raw"], "tiny_raw": tiny["raw"],
        "sft": plan.sft.digest, "sft_data": manifest.sha256,
    }  # fmt: skip


WORK: dict[str, Work] = {"pilot": pilot}
