"""Logs that arrive over HTTP."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base


class StreamRow(Base):
    """The log of one process, and how far it was loaded. Written in the transaction that loads.

    `start`: one launch of a training; all its processes share a segment.
    """

    __tablename__ = "stream"
    __table_args__ = (sa.Index(None, "run_id", "start"),)

    id: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"))
    start: Mapped[str] = mapped_column(sa.Text)
    rank: Mapped[int]
    segment: Mapped[int] = mapped_column(sa.SmallInteger)
    offset_bytes: Mapped[int] = mapped_column(sa.BigInteger)
