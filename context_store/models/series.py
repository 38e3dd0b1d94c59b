"""Series dictionary and the two tiers of points. Tiers carry no foreign key: ingest is their only writer."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from context_store.models.base import Base


class SeriesRow(Base):
    """A name of one run, kept verbatim and parsed (contracts.names)."""

    __tablename__ = "series"
    __table_args__ = (
        sa.UniqueConstraint("run_id", "name"),
        sa.Index(None, "run_id", "statistic", "layer", "expert"),
    )

    id: Mapped[int] = mapped_column(sa.Integer, sa.Identity(), primary_key=True)
    run_id: Mapped[str] = mapped_column(sa.ForeignKey("run.id"))
    name: Mapped[str] = mapped_column(sa.Text)
    statistic: Mapped[str] = mapped_column(sa.Text)
    module: Mapped[str] = mapped_column(sa.Text)
    layer: Mapped[int | None]
    expert: Mapped[int | None]
    rank: Mapped[int | None]


class TailRow(Base):
    """Of one segment: how much its hot tail holds, and the highest step that was ever sealed (NULL: none)."""

    __tablename__ = "tail"

    run_number: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    num_frames: Mapped[int]
    num_points: Mapped[int] = mapped_column(sa.BigInteger)
    sealed_step: Mapped[int | None] = mapped_column(sa.BigInteger)


class FrameRow(Base):
    """Hot tail: what was logged at one step at once (context_store.frames). `key`: hash of series and values."""

    __tablename__ = "frame"

    run_number: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    key: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True)
    seq: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity())
    series: Mapped[bytes] = mapped_column(sa.LargeBinary)
    values: Mapped[bytes] = mapped_column(sa.LargeBinary)


class LatestRow(Base):
    """The newest sealed value of a series: of the newest segment, its highest step."""

    __tablename__ = "latest"

    series_id: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    segment: Mapped[int] = mapped_column(sa.SmallInteger)
    step: Mapped[int] = mapped_column(sa.BigInteger)
    value: Mapped[float] = mapped_column(sa.Double)


class ChunkRow(Base):
    """Sealed points with their first rollup. Chunks of one (series, segment) never overlap.

    `min`, `max`, `sum` cover the finite values (NULL when there is none); `first`, `last` any value.
    """

    __tablename__ = "chunk"
    __table_args__ = (
        sa.Index(
            "ix_chunk_not_finite",
            "series_id",
            "segment",
            "step_lo",
            postgresql_where=sa.text("nan_count + pos_inf_count + neg_inf_count > 0"),
        ),
    )

    series_id: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    step_lo: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    step_hi: Mapped[int] = mapped_column(sa.BigInteger)
    n: Mapped[int]
    min: Mapped[float | None] = mapped_column(sa.Double)
    max: Mapped[float | None] = mapped_column(sa.Double)
    sum: Mapped[float | None] = mapped_column(sa.Double)
    first: Mapped[float] = mapped_column(sa.Double)
    last: Mapped[float] = mapped_column(sa.Double)
    nan_count: Mapped[int]
    pos_inf_count: Mapped[int]
    neg_inf_count: Mapped[int]
    payload: Mapped[bytes] = mapped_column(sa.LargeBinary)
