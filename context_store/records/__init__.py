"""Values that go into and come out of the store. Frozen, plain, picklable; no database rows.

Times are unix seconds (float), like `contracts.events`. An `id` of 0 means "not stored yet". Mappings hold JSON
values only. `evidence` is never free text: each entry points to a stored object (contracts.evidence).
"""

from context_store.records.history import Commit, Hunk, TimelineEvent
from context_store.records.knowledge import Anomaly, Diagnostic, Investigation, NegativeResult, Suspect, VerdictRecord
from context_store.records.oversight import Activity, BudgetState, LedgerEntry, Principal
from context_store.records.runs import Checkpoint, ConfigChange, DataReads, Executed, NewRun, Project, Run, Segment
from context_store.records.series import SeriesData, SeriesMatrix
from context_store.records.types import Evidence, Json
from context_store.records.work import Approval, Effect, EffectRequest, NewProposal, Proposal

__all__ = [
    "Activity",
    "Anomaly",
    "Approval",
    "BudgetState",
    "Checkpoint",
    "Commit",
    "ConfigChange",
    "DataReads",
    "Diagnostic",
    "Effect",
    "EffectRequest",
    "Evidence",
    "Executed",
    "Hunk",
    "Investigation",
    "Json",
    "LedgerEntry",
    "NegativeResult",
    "NewProposal",
    "NewRun",
    "Principal",
    "Project",
    "Proposal",
    "Run",
    "Segment",
    "SeriesData",
    "SeriesMatrix",
    "Suspect",
    "TimelineEvent",
    "VerdictRecord",
]
