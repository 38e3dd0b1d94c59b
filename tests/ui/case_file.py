"""A case file stored through the store's own components: a real run folder, ingested, and what a loop would write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from context_store import Store
from context_store.records import (
    Amount,
    Anomaly,
    Diagnostic,
    NegativeResult,
    NewProposal,
    NewRun,
    Project,
    Proposal,
    Suspect,
    TimelineEvent,
    VerdictRecord,
)
from contracts.enums import (
    CauseKind,
    DiagnosticKind,
    EffectKind,
    InvestigationState,
    RunRole,
    Scope,
    TimelineKind,
    Verdict,
)
from contracts.events import CheckpointSaved, Event, Metrics, SegmentStarted, encode, segment_folder
from contracts.evidence import EvidenceRef

NOW = 1_750_000_000.0
LATER = 4_000_000_000.0
ONSET = (20, 24)
LAST_STEP = 60
CODE = "c41d07e" + "0" * 33
MARKUP = (
    '<b id="injected">bold</b><img src=x onerror="document.title=1"><script>document.title=2</script>[a](http://x.test)'
)
DIFF = f"""diff --git a/balance.py b/balance.py
--- a/balance.py
+++ b/balance.py
@@ -1,4 +1,3 @@ def balance_loss(layer):
     load = shares(layer)
-    if layer in (1, 3):
-        return 0.0  # {MARKUP}
+    # every layer is balanced
     return num_experts * load
"""


@dataclass(frozen=True, kw_only=True)
class StoredCase:
    id: str
    proposal: Proposal


def store_run(store: Store, folder: Path, run: NewRun, *, departs: bool, code_version: str = CODE) -> None:
    """Write the run's events as a training would, and ingest them."""
    log = segment_folder(folder, 0)
    log.mkdir(parents=True)
    (log / "events.log").write_bytes(
        b"".join(encode(event) for event in _events(run.id, code_version, departs=departs))
    )
    store.runs.create(run)
    store.ingest.ship(run.id, folder)


def _events(run_id: str, code_version: str, *, departs: bool) -> list[Event]:
    start = SegmentStarted(
        run_id=run_id, segment=0, start_step=0, code_version=code_version, seed=1, dp_size=2,
        start_checkpoint="", config={"moe.balance.coef": 0.01}, environment={"python": "3.11"}, wall_time=NOW,
    )  # fmt: skip
    metrics = [Metrics(step=step, values=_values(step, departs=departs)) for step in range(1, LAST_STEP + 1)]
    saved = CheckpointSaved(step=10, path="/nowhere/step-000010", sha256="ab" * 32, size_bytes=1000)
    return [start, *metrics[:10], saved, *metrics[10:]]


def _values(step: int, *, departs: bool) -> dict[str, float]:
    away = max(0, step - ONSET[0]) / 20 if departs else 0.0
    layers = {f"max_vio/layers.{n}": 0.3 + 0.01 * n + (away if n in (1, 3) else 0.0) for n in range(4)}
    loss = float("nan") if step == 7 else 3.0 - step / 100
    return {"lm_loss": loss, "max_vio": 0.32, "tokens_per_second": 900.0, **layers}


def store_case(store: Store, folder: Path, case_id: str) -> StoredCase:
    """One investigation of one run with injected markup wherever a stranger's text can stand."""
    run_id, rerun_id = f"run-{case_id}", f"rr-{case_id}"
    store.projects.put(Project(id="demo", path="/nowhere"))
    training = NewRun(
        id=run_id,
        project_id="demo",
        name=f"pretrain {case_id} {MARKUP}",
        role=RunRole.TRAINING,
        folder=str(folder / run_id),
    )
    store_run(store, folder / run_id, training, departs=True)
    event = TimelineEvent(
        run_id=run_id, segment=0, step=18, kind=TimelineKind.CODE, title=f"skip layers {MARKUP}", at=NOW
    )
    store.timeline.add(event)
    _store_finding(store, case_id, run_id)
    rerun = NewRun(
        id=rerun_id, project_id="demo", name="without c41d07e", role=RunRole.DIAGNOSTIC, folder=str(folder / rerun_id),
        parent_run_id=run_id, parent_step=10, investigation_id=case_id,
    )  # fmt: skip
    store_run(store, folder / rerun_id, rerun, departs=False)
    _store_proof(store, case_id, rerun_id)
    store.knowledge.set_investigation(case_id, state=InvestigationState.WAITING_FOR_APPROVAL)
    store.activity.publish("finding", f"two layers depart {MARKUP}", investigation_id=case_id)
    return StoredCase(id=case_id, proposal=store.proposals.put(_proposal(case_id, run_id, rerun_id)))


def _store_finding(store: Store, case_id: str, run_id: str) -> None:
    series = ("max_vio/layers.1", "max_vio/layers.3")
    points = EvidenceRef(kind="series", id=f"{run_id}/max_vio%2Flayers.1", slice="20..24")
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id=run_id, kind="layer_departure", series=series, onset=ONSET, severity=0.9, evidence=(points,),
            statement=f"Layers 1 and 3 depart at steps 20-24 while the overall value looks healthy. {MARKUP}",
        )
    )  # fmt: skip
    store.knowledge.open_investigation(case_id, run_id, [anomaly.id], f"Layers 1 and 3 depart ({case_id})", NOW)
    store.budgets.open(case_id, Amount(cpu_s=600, reruns=12))
    suspects = (
        (
            "code",
            CauseKind.CODE,
            f"c41d07e skip layers {MARKUP}",
            0.8,
            Verdict.PROVEN,
            "touches the term | without it the layers stay",
        ),
        (
            "mix",
            CauseKind.DATA,
            "library share 0.5 to 0.6",
            0.4,
            Verdict.REFUTED,
            f"changed before | departs all the same {MARKUP}",
        ),
        ("lr", CauseKind.CONFIG, "optim.head.lr 0.002 to 0.0015", 0.1, None, ""),
    )
    for rank, (key, kind, title, score, status, reason) in enumerate(suspects, start=1):
        store.knowledge.put_suspect(
            Suspect(
                investigation_id=case_id, key=key, cause_kind=kind, title=title, commits=(), evidence=(points,),
                score=score, rank=rank, status=status, reason=reason,
            )
        )  # fmt: skip


def _store_proof(store: Store, case_id: str, rerun_id: str) -> None:
    ref = EvidenceRef(kind="run", id=rerun_id)
    store.knowledge.put_diagnostic(
        Diagnostic(
            investigation_id=case_id, key="revert", kind=DiagnosticKind.REVERT, label=f"without c41d07e {MARKUP}",
            suspect_keys=("code",), run_id=rerun_id, effect_key="e1", measure=0.02,
            reading="the anomaly is gone (measure 0.02)",
        )
    )  # fmt: skip
    store.knowledge.put_verdict(
        VerdictRecord(
            investigation_id=case_id, verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, suspect_keys=("code",),
            num_reruns=4, effect=0.98, interval=(0.9, 1.05), statement=f"c41d07e causes it {MARKUP}", evidence=(ref,),
            would_overturn="a replay without it that departs all the same",
        )
    )  # fmt: skip
    store.negatives.add(
        NegativeResult(
            claim="the mixture causes it", intervention="mixture put back", context={"code": "c41d07e"},
            expected="stays", observed="departs", reason_class="refuted_by_rerun",
            reason="does not depend on it", evidence=(ref,),
            reopen_if="the library share passes 0.8", investigation_id=case_id, actor="loop:debug",
        )
    )  # fmt: skip
    store.knowledge.put_report(case_id, f"# Report\n\n{MARKUP}\n\n![picture](http://x.test/leak.png)\n")


def _proposal(case_id: str, run_id: str, rerun_id: str) -> NewProposal:
    return NewProposal(
        investigation_id=case_id, kind=EffectKind.RESUME_WITH_PATCH, title=f"Resume {case_id} without c41d07e",
        payload={"run_id": run_id, "overrides": {"optim.head.lr": 0.002}, "max_step": 300}, diff=DIFF,
        base_state="c41d07e + checkpoint abab", risk=f"low {MARKUP}",
        verification="both layers fall below 0.6", evidence=(EvidenceRef(kind="run", id=rerun_id),), expires_at=LATER,
    )  # fmt: skip
