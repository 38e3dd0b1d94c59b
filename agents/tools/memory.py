"""What is remembered across runs: conventions, facts, decisions, failures, each with its source."""

from __future__ import annotations

from pydantic import Field

from agents import evidence
from agents.tools.matching import best
from agents.tools.protocol import Arguments, Row, ToolResult, result, row
from context_store import Store
from context_store.records import Memory


class Remembered(Arguments):
    text: str = Field(default="", description="in words; empty: everything that holds")
    project_id: str | None = None


def remembered(store: Store, arguments: Remembered) -> ToolResult:
    """What holds now, best match first; newest first when nothing is asked for."""
    known = store.memory.list(arguments.project_id)
    if arguments.text:
        known = best(arguments.text, known, lambda each: f"{each.key} {each.text}", limit=10)
    return result([memory_row(each) for each in known], "nothing of that kind is remembered")


def memory_row(each: Memory) -> Row:
    """It cites the entry alone, so that nobody can put words into the mouth of what the entry rests on."""
    sources = ", ".join(str(ref) for ref in each.evidence)
    text = f"remembered {each.kind} '{each.key}': {each.text} (by {each.author}, resting on {sources})"
    return row(text, evidence.numbered("memory", each.id))
