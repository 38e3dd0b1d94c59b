"""Tables as SQLAlchemy 2 models, one file per area. Rows never leave `context_store`; records do."""

from context_store.models.base import Base
from context_store.models.chat import ChatExchangeRow, ChatThreadRow, MemoryRow
from context_store.models.code import CommitRow, FieldStatisticRow, HunkFieldRow, HunkRow, HunkStatisticRow
from context_store.models.control import ScheduleRow, WatchMarkRow
from context_store.models.data import (
    DocumentRow,
    DocumentStageRow,
    DocumentTextRow,
    PipelineRow,
    StageRow,
    StageTraceRow,
    StageVersionRow,
    SubsetRow,
)
from context_store.models.evals import BenchmarkItemRow, BenchmarkRow, DecontaminationRow, ScoreRow
from context_store.models.knowledge import (
    AnomalyRow,
    CaseWorkRow,
    DiagnosticRow,
    InvestigationAnomalyRow,
    InvestigationRow,
    NegativeRow,
    SuspectRow,
    VerdictRow,
)
from context_store.models.oversight import ActivityRow, LedgerRow, TokenRow
from context_store.models.policies import ExperimentRow, ExperimentStepRow, PolicyRow
from context_store.models.runs import (
    CheckpointRow,
    ConfigValueRow,
    DataReadRow,
    ExecutedFileRow,
    ProjectRow,
    RunRow,
    SegmentRow,
    ShipmentRow,
    TimelineRow,
)
from context_store.models.search import SearchTextRow
from context_store.models.series import ChunkRow, FrameRow, LatestRow, SeriesRow, TailRow
from context_store.models.streams import StreamRow
from context_store.models.triage import TriageRow
from context_store.models.work import ApprovalRow, BudgetRow, EffectRow, ProposalRow, ReservationRow

__all__ = [
    "ActivityRow",
    "AnomalyRow",
    "ApprovalRow",
    "Base",
    "BenchmarkItemRow",
    "BenchmarkRow",
    "BudgetRow",
    "CaseWorkRow",
    "ChatExchangeRow",
    "ChatThreadRow",
    "CheckpointRow",
    "ChunkRow",
    "CommitRow",
    "ConfigValueRow",
    "DataReadRow",
    "DecontaminationRow",
    "DiagnosticRow",
    "DocumentRow",
    "DocumentStageRow",
    "DocumentTextRow",
    "EffectRow",
    "ExecutedFileRow",
    "ExperimentRow",
    "ExperimentStepRow",
    "FieldStatisticRow",
    "FrameRow",
    "HunkFieldRow",
    "HunkRow",
    "HunkStatisticRow",
    "InvestigationAnomalyRow",
    "InvestigationRow",
    "LatestRow",
    "LedgerRow",
    "MemoryRow",
    "NegativeRow",
    "PipelineRow",
    "PolicyRow",
    "ProjectRow",
    "ProposalRow",
    "ReservationRow",
    "RunRow",
    "ScheduleRow",
    "ScoreRow",
    "SearchTextRow",
    "SegmentRow",
    "SeriesRow",
    "ShipmentRow",
    "StageRow",
    "StageTraceRow",
    "StageVersionRow",
    "StreamRow",
    "SubsetRow",
    "SuspectRow",
    "TailRow",
    "TimelineRow",
    "TokenRow",
    "TriageRow",
    "VerdictRow",
    "WatchMarkRow",
]
