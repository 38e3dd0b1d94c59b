"""Every text that is searched. Written by triggers (migrations/sql: 0006, 0010); the vector by `search.py`."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from context_store.embedding import DIMENSIONS
from context_store.models.base import Base, UnixTime, Words

_TEXT = "search_words(title || E'\\n' || body)"


class SearchTextRow(Base):
    """`source_key`: which row of `kind` it is; `embedder`: whose vector it is, None while it has none."""

    __tablename__ = "search_text"
    __table_args__ = (
        sa.UniqueConstraint("kind", "source_key"),
        sa.Index(None, "words", postgresql_using="gin"),
        sa.Index(None, "layers", postgresql_using="gin"),
        sa.Index(None, "embedding", postgresql_using="hnsw", postgresql_ops={"embedding": "vector_cosine_ops"}),
    )

    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    source_key: Mapped[str] = mapped_column(sa.Text)
    reference: Mapped[str] = mapped_column(sa.Text)
    project_id: Mapped[str | None] = mapped_column(sa.Text)
    run_id: Mapped[str | None] = mapped_column(sa.Text, index=True)
    step_lo: Mapped[int | None] = mapped_column(sa.BigInteger)
    step_hi: Mapped[int | None] = mapped_column(sa.BigInteger)
    at: Mapped[float | None] = mapped_column(UnixTime)
    layers: Mapped[list[int]] = mapped_column(ARRAY(sa.Integer))
    fields: Mapped[tuple[str, ...]] = mapped_column(Words)
    outcome: Mapped[str] = mapped_column(sa.Text)
    title: Mapped[str] = mapped_column(sa.Text)
    body: Mapped[str] = mapped_column(sa.Text)
    content_key: Mapped[str] = mapped_column(sa.Text, sa.Computed("md5(title || E'\\n' || body)"))
    words: Mapped[str] = mapped_column(TSVECTOR, sa.Computed(f"to_tsvector('english'::regconfig, {_TEXT})"))
    num_words: Mapped[int] = mapped_column(sa.Computed(f"length(to_tsvector('english'::regconfig, {_TEXT}))"))
    embedder: Mapped[str | None] = mapped_column(sa.Text, index=True)
    embedding: Mapped[list[float] | None] = mapped_column(VECTOR(DIMENSIONS))
