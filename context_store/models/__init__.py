"""Tables as SQLAlchemy 2 models, one file per area. Rows never leave `context_store`; records do."""

from context_store.models.base import Base
from context_store.models.code import CommitRow, HunkRow
from context_store.models.knowledge import (
    AnomalyRow,
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
from context_store.models.series import ChunkRow, FrameRow, LatestRow, SeriesRow, TailRow
from context_store.models.streams import StreamRow
from context_store.models.work import ApprovalRow, BudgetRow, EffectRow, ProposalRow, ReservationRow

__all__ = [
    "ActivityRow",
    "AnomalyRow",
    "ApprovalRow",
    "Base",
    "BudgetRow",
    "CheckpointRow",
    "ChunkRow",
    "CommitRow",
    "ConfigValueRow",
    "DataReadRow",
    "DiagnosticRow",
    "EffectRow",
    "ExecutedFileRow",
    "ExperimentRow",
    "ExperimentStepRow",
    "FrameRow",
    "HunkRow",
    "InvestigationAnomalyRow",
    "InvestigationRow",
    "LatestRow",
    "LedgerRow",
    "NegativeRow",
    "PolicyRow",
    "ProjectRow",
    "ProposalRow",
    "ReservationRow",
    "RunRow",
    "SegmentRow",
    "SeriesRow",
    "ShipmentRow",
    "StreamRow",
    "SuspectRow",
    "TailRow",
    "TimelineRow",
    "TokenRow",
    "VerdictRow",
]
