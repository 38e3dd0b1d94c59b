"""Values that go into and come out of the store. Frozen, plain, picklable; no database rows.

Times are unix seconds (float), like `contracts.events`. An `id` of 0 means "not stored yet". Mappings hold JSON
values only. `evidence` is never free text: each entry points to a stored object (contracts.evidence).
"""

from context_store.records.history import Commit, Hunk, TimelineEvent
from context_store.records.knowledge import Anomaly, Diagnostic, Investigation, NegativeResult, Suspect, VerdictRecord
from context_store.records.oversight import Activity, Amount, BudgetState, LedgerEntry, Principal
from context_store.records.policies import Experiment, ExperimentStep, Policy
from context_store.records.runs import (
    Checkpoint,
    ConfigChange,
    DataReads,
    Executed,
    NewRun,
    Project,
    Run,
    RunTableRow,
    Segment,
)
from context_store.records.series import AlignedWindows, NonFinite, Removal, SeriesData, SeriesMatrix, StatisticMatrix
from context_store.records.streams import NewStream, Stream
from context_store.records.types import Evidence, Json
from context_store.records.work import Approval, Effect, EffectRequest, NewProposal, Proposal

__all__ = [
    "Activity",
    "AlignedWindows",
    "Amount",
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
    "Experiment",
    "ExperimentStep",
    "Hunk",
    "Investigation",
    "Json",
    "LedgerEntry",
    "NegativeResult",
    "NewProposal",
    "NewRun",
    "NewStream",
    "NonFinite",
    "Policy",
    "Principal",
    "Project",
    "Proposal",
    "Removal",
    "Run",
    "RunTableRow",
    "Segment",
    "SeriesData",
    "SeriesMatrix",
    "StatisticMatrix",
    "Stream",
    "Suspect",
    "TimelineEvent",
    "VerdictRecord",
]
