"""Series dictionary and the two tiers of points. Tiers carry no foreign key: ingest is their only writer."""

from __future__ import annotations

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


class PointRow(Base):
    """Hot tail: idempotent by its key."""

    __tablename__ = "point"

    series_id: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    segment: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    step: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    value: Mapped[float] = mapped_column(sa.Double)


class ChunkRow(Base):
    """Sealed points with their first rollup. Chunks of one (series, segment) never overlap.

    `min`, `max`, `sum` cover the finite values (NULL when there is none); `first`, `last` any value.
    """

    __tablename__ = "chunk"

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
