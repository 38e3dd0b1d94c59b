"""What a role may rest on: rows of the tools about one case, and whether an evidence id exists at all."""

from __future__ import annotations

from urllib.parse import unquote

from agents.tools import READING, Row, Toolbox
from agents.tools.memory import memory_row
from context_store import Store
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

_MAX_COMMITS, _MAX_HUNKS = 4, 6


def exists(store: Store, ref: EvidenceRef) -> bool:
    """True when the store holds what `ref` points to."""
    if ref.kind == "memory":
        return ref.id.isdigit() and any(each.id == int(ref.id) for each in store.memory.list())
    try:
        store.why.of(ref.kind, unquote(ref.id), max_nodes=1)
    except (NotFound, UserInputError):
        return False
    return True


def rows_of_case(store: Store, case_id: str) -> list[Row]:
    """The case file, its re-runs, what its first suspects changed, what did not hold before, what is remembered."""
    toolbox = Toolbox(store, READING)
    case = store.knowledge.investigation(case_id)
    project_id = store.runs.get(case.run_id).project_id
    rows = [
        *toolbox.call("case_file", {"investigation_id": case_id}).rows,
        *toolbox.try_call("diagnostics", {"investigation_id": case_id}).rows,
    ]
    commits = [hash_ for each in store.knowledge.suspects(case_id) for hash_ in each.commits][:_MAX_COMMITS]
    for each in commits:
        rows += toolbox.try_call("hunks", {"project_id": project_id, "commit": each}).rows[:_MAX_HUNKS]
    rows += toolbox.try_call("negative_results", {"text": case.title}).rows
    return [*rows, *(memory_row(each) for each in store.memory.list(project_id))]
