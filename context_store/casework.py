"""What loops ask and measure in their cases, each thing written once: questions, labels, versions, scores, decisions.

The debug loop has tables of its own for suspects and re-runs (context_store.knowledge); every other loop stores here
what it needs to answer the same after a crash. What is large lies in files of the case's folder, named by their hash.
"""

from __future__ import annotations

import builtins

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.models import CaseWorkRow, InvestigationRow
from context_store.records import CaseWork, Json
from context_store.redaction import redact_json
from contracts.errors import NotFound


class CaseWorkbook:
    """`store.casework`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, case_id: str, kind: str, key: str, body: Json, at: float) -> bool:
        """True when it is new; what was said first under (case, kind, key) stays. NotFound for an unknown case."""
        known = sa.select(InvestigationRow.id).where(InvestigationRow.id == case_id)
        values = {"investigation_id": case_id, "kind": kind, "key": key, "body": redact_json(body), "at": at}
        statement = insert(CaseWorkRow).values(**values).on_conflict_do_nothing().returning(CaseWorkRow.key)
        with self._database.begin() as connection:
            if connection.execute(known).first() is None:
                raise NotFound(f"no case '{case_id}'", remedy="open it first")
            return connection.execute(statement).first() is not None

    def get(self, case_id: str, kind: str, key: str) -> CaseWork:
        """Raises NotFound."""
        found = self._select(CaseWorkRow.investigation_id == case_id, CaseWorkRow.kind == kind, CaseWorkRow.key == key)
        if not found:
            raise NotFound(f"case {case_id} holds no {kind} '{key}'", remedy=f"list its {kind} entries")
        return found[0]

    def list(self, case_id: str, kind: str) -> builtins.list[CaseWork]:
        """In the order in which it was written."""
        return self._select(CaseWorkRow.investigation_id == case_id, CaseWorkRow.kind == kind)

    def of_loop(self, loop: str, kind: str) -> builtins.list[CaseWork]:
        """Of all cases of a loop, in the order in which it was written."""
        cases = sa.select(InvestigationRow.id).where(InvestigationRow.loop == loop)
        return self._select(CaseWorkRow.kind == kind, CaseWorkRow.investigation_id.in_(cases))

    def _select(self, *where: sa.ColumnElement[bool]) -> builtins.list[CaseWork]:
        columns = (CaseWorkRow.investigation_id, CaseWorkRow.kind, CaseWorkRow.key, CaseWorkRow.body, CaseWorkRow.at)
        query = sa.select(*columns).where(*where).order_by(CaseWorkRow.ordinal)
        with self._database.read() as connection:
            return [
                CaseWork(case_id=case_id, kind=kind, key=key, body=body, at=at)
                for case_id, kind, key, body, at in connection.execute(query)
            ]
