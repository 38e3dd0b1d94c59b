"""What a role may rest on: rows of the tools about one case, and whether an evidence id exists at all."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

from agents.skills import SkillBook, skills_for
from agents.tools import READING, Row, Toolbox
from context_store import Store
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef


def exists(store: Store, ref: EvidenceRef) -> bool:
    """True when the store holds what `ref` points to."""
    if ref.kind == "memory":
        return ref.id.isdigit() and any(each.id == int(ref.id) for each in store.memory.list())
    try:
        store.why.of(ref.kind, unquote(ref.id), max_nodes=1)
    except (NotFound, UserInputError):
        return False
    return True


def rows_of_case(store: Store, case_id: str, clock: Callable[[], float]) -> list[Row]:
    """The case file, its re-runs, what its first suspects changed, what did not hold before, what is remembered.

    Read by the skill `read_case`, in the name of the roles.
    """
    case = store.knowledge.investigation(case_id)
    toolbox = Toolbox(store, READING)
    book = SkillBook(store, toolbox, skills_for(toolbox), actor="roles", clock=clock)
    inputs = {"investigation_id": case_id, "project_id": case.project_id, "title": case.title or case_id}
    return [fact.row for fact in book.run("read_case", inputs).facts]
