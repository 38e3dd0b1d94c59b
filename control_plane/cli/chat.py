"""`lathe chat`: ask about runs and cases; answers cite their evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import LatheError
from control_plane.cli.session import Json, console, notes, opened, print_json

if TYPE_CHECKING:
    from agents.chat import Answer

_PROMPT = "> "


def chat(
    question: Annotated[str | None, typer.Argument(help="Leave it out to talk line by line.")] = None,
    run: Annotated[str, typer.Option(help="Ask about this run.")] = "",
    case: Annotated[str, typer.Option(help="Ask about this investigation.")] = "",
    thread: Annotated[str, typer.Option(help="Go on in this thread (default: one per run or case).")] = "",
    as_json: Json = False,
) -> None:
    """Ask what changed, why something happened, what was tried; works without a model too."""
    from agents.chat import ChatContext
    from control_plane.chat import mind_of, open_chat, thread_of

    context = ChatContext(run_id=run, investigation_id=case)
    context = ChatContext(run_id=run, investigation_id=case, thread_id=thread or thread_of(context))
    with opened() as lathe:
        talk = open_chat(lathe.store, mind_of(lathe), context, lathe.settings.actor)
        if question is not None:
            show(talk.answer(question, context), as_json=as_json)
            return
        for line in _lines():
            try:
                show(talk.answer(line, context), as_json=as_json)
            except LatheError as error:
                notes().print(str(error), markup=False)


def show(answer: Answer, *, as_json: bool) -> None:
    """For people: the text, then what can be opened beside it; what was removed goes to standard error."""
    if as_json:
        from agents.chat.threads import as_object

        print_json(as_object(answer))
        return
    out = console()
    out.print(answer.text, markup=False, soft_wrap=True)
    for card in answer.cards:
        out.print(f"  {card.kind}: {card.title}  {card.evidence}", style="dim", markup=False, soft_wrap=True)
    for note in answer.notes:
        notes().print(note, style="dim", markup=False)
    if answer.removed:
        share = f"{answer.removed} of {answer.claimed} claims were removed: their evidence does not show them"
        notes().print(share, style="yellow", markup=False)


def _lines() -> Iterator[str]:
    """Questions from standard input until it ends or somebody says quit; a prompt only on a terminal."""
    while True:
        if sys.stdin.isatty():
            console().print(_PROMPT, end="")
        line = sys.stdin.readline()
        if not line or line.strip().lower() in ("quit", "exit"):
            return
        if line.strip():
            yield line
