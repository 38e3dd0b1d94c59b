"""Threads of chat, and memory."""

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0008_threads.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
