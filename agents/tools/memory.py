"""What is remembered across runs: conventions, facts, decisions, failures, each with its source.

What an agent notes stands under `agent/KEY`, beside what people keep under `KEY`, until a person confirms it: an agent
supersedes its own notes and nothing else.
"""

from __future__ import annotations

from pydantic import Field

from agents import evidence
from agents.tools.matching import best
from agents.tools.protocol import Arguments, Row, ToolResult, result, row
from context_store import Store
from context_store.records import Memory

NOTES = "agent/"  # of what agents note
SKILLS = "skill/"  # of what they put together themselves (agents.skills.learned)
RESERVED = (NOTES, SKILLS)


class Remembered(Arguments):
    text: str = Field(default="", description="in words; empty: everything that holds")
    project_id: str | None = None


def remembered(store: Store, arguments: Remembered) -> ToolResult:
    """What holds now, best match first; newest first when nothing is asked for."""
    known = entries(store, arguments.project_id)
    if arguments.text:
        known = best(arguments.text, known, lambda each: f"{each.key} {each.text}", limit=10)
    return result([memory_row(each) for each in known], "nothing of that kind is remembered")


def entries(store: Store, project_id: str | None) -> list[Memory]:
    """What holds now and is no skill, newest first."""
    return [each for each in store.memory.list(project_id) if not each.key.startswith(SKILLS)]


def memory_row(each: Memory) -> Row:
    """It cites the entry alone, so that nobody can put words into the mouth of what the entry rests on."""
    sources = ", ".join(str(ref) for ref in each.evidence)
    said = "noted by an agent, confirmed by nobody," if each.key.startswith(NOTES) else "remembered"
    text = f"{said} {each.kind} '{each.key}': {each.text} (by {each.author}, resting on {sources})"
    return row(text, evidence.numbered("memory", each.id))
