"""A proposal as a debug loop makes it, for the tests of decisions, effects and attacks."""

from __future__ import annotations

from context_store.records import NewProposal
from contracts.enums import EffectKind
from contracts.evidence import EvidenceRef

NOW = 10_000.0
NEW = NewProposal(
    investigation_id="case-1",
    kind=EffectKind.RESUME_WITH_PATCH,
    title="take back 3f2a9c",
    payload={"run_id": "run-1", "overrides": {"lr": 0.1}},
    diff="-a\n+b\n",
    base_state="c0ffee+ckpt",
    risk="low",
    verification="the anomaly recedes",
    evidence=(EvidenceRef(kind="run", id="rr-1"),),
    expires_at=NOW + 100,
)
