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
from context_store.models.series import ChunkRow, PointRow, SeriesRow
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
    "HunkRow",
    "InvestigationAnomalyRow",
    "InvestigationRow",
    "LedgerRow",
    "NegativeRow",
    "PointRow",
    "ProjectRow",
    "ProposalRow",
    "ReservationRow",
    "RunRow",
    "SegmentRow",
    "SeriesRow",
    "ShipmentRow",
    "SuspectRow",
    "TimelineRow",
    "TokenRow",
    "VerdictRow",
]
