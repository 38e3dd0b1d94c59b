"""Values that go into and come out of the store. Frozen, plain, picklable; no database rows.

Times are unix seconds (float), like `contracts.events`. An `id` of 0 means "not stored yet". Mappings hold JSON
values only. `evidence` is never free text: each entry points to a stored object (contracts.evidence).
"""

from context_store.records.chat import ChatExchange, ChatThread, Memory
from context_store.records.control import Schedule, Token
from context_store.records.data import (
    Document,
    DocumentStep,
    Level,
    MixtureEvent,
    NewDocument,
    Pipeline,
    Stage,
    StageTrace,
    StageVersion,
    Subset,
)
from context_store.records.evals import (
    Benchmark,
    Comparison,
    Decontamination,
    Leak,
    LeftOut,
    NewScore,
    Ranking,
    Score,
    Unread,
)
from context_store.records.history import Commit, Hunk, TimelineEvent
from context_store.records.knowledge import (
    Anomaly,
    CaseWork,
    Contradiction,
    Diagnostic,
    Duplicate,
    EffectSize,
    Investigation,
    NegativeResult,
    Suspect,
    VerdictRecord,
)
from context_store.records.oversight import Activity, Amount, BudgetState, LedgerEntry, Principal
from context_store.records.policies import Experiment, ExperimentStep, Policy
from context_store.records.recurrence import Precedent
from context_store.records.redactions import Redaction
from context_store.records.runs import (
    UNKNOWN_OWNER,
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
from context_store.records.search import Coverage, Hit, SearchFilter, TextKind
from context_store.records.series import AlignedWindows, NonFinite, Removal, SeriesData, SeriesMatrix, StatisticMatrix
from context_store.records.streams import NewStream, Stream
from context_store.records.triage import DetectorRecord, TriageMark
from context_store.records.types import Evidence, Json
from context_store.records.work import Approval, Effect, EffectRequest, NewProposal, Proposal

__all__ = [
    "UNKNOWN_OWNER",
    "Activity",
    "AlignedWindows",
    "Amount",
    "Anomaly",
    "Approval",
    "Benchmark",
    "BudgetState",
    "CaseWork",
    "ChatExchange",
    "ChatThread",
    "Checkpoint",
    "Commit",
    "Comparison",
    "ConfigChange",
    "Contradiction",
    "Coverage",
    "DataReads",
    "Decontamination",
    "DetectorRecord",
    "Diagnostic",
    "Document",
    "DocumentStep",
    "Duplicate",
    "Effect",
    "EffectRequest",
    "EffectSize",
    "Evidence",
    "Executed",
    "Experiment",
    "ExperimentStep",
    "Hit",
    "Hunk",
    "Investigation",
    "Json",
    "Leak",
    "LedgerEntry",
    "LeftOut",
    "Level",
    "Memory",
    "MixtureEvent",
    "NegativeResult",
    "NewDocument",
    "NewProposal",
    "NewRun",
    "NewScore",
    "NewStream",
    "NonFinite",
    "Pipeline",
    "Policy",
    "Precedent",
    "Principal",
    "Project",
    "Proposal",
    "Ranking",
    "Redaction",
    "Removal",
    "Run",
    "RunTableRow",
    "Schedule",
    "Score",
    "SearchFilter",
    "Segment",
    "SeriesData",
    "SeriesMatrix",
    "Stage",
    "StageTrace",
    "StageVersion",
    "StatisticMatrix",
    "Stream",
    "Subset",
    "Suspect",
    "TextKind",
    "TimelineEvent",
    "Token",
    "TriageMark",
    "Unread",
    "VerdictRecord",
]
