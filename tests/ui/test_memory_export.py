"""The Memory page has every negative result, and its export is the whole record."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from context_store import Store
from context_store.records import NegativeResult, NewRun, Project
from contracts.enums import Role, RunRole
from contracts.evidence import EvidenceRef
from ui.client import Client
from ui.transport import connect
from ui.views import memory


def test_all_negative_results_are_listed_newest_first_and_exported_whole(
    served_store: Store, api_url: str, tmp_path: Path
) -> None:
    """Shows R801-2.5: none drops out of sight because there are many."""
    served_store.projects.put(Project(id="demo", path="/nowhere"))
    run = NewRun(id="r-1", project_id="demo", name="r-1", role=RunRole.TRAINING, folder=str(tmp_path))
    served_store.runs.create(run)
    stored = [served_store.negatives.add(_negative(number)) for number in range(25)]
    client = Client(http=connect(api_url), token=served_store.tokens.create("vera", Role.VIEWER))
    found = client.negatives()
    assert [each.id for each in found] == [each.id for each in reversed(stored)]
    newest, *_, oldest = csv.DictReader(io.StringIO(memory.as_csv(found)))
    assert (newest["id"], newest["claim"]) == (str(stored[-1].id), "claim 24")
    assert json.loads(oldest["context"]) == {"code": "c41d07e", "lr": 0.01}
    assert (oldest["investigation_id"], oldest["evidence"]) == ("", "run:r-1")


def _negative(number: int) -> NegativeResult:
    return NegativeResult(
        claim=f"claim {number}", intervention="tried", context={"code": "c41d07e", "lr": 0.01}, expected="stays",
        observed="departs", reason_class="no_effect", reason="seen twice", reopen_if="a larger model", actor="ada",
        evidence=(EvidenceRef(kind="run", id="r-1"),), investigation_id=None,
    )  # fmt: skip
