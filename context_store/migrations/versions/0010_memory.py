"""Owners of runs and proposals; texts of every kind with their time, run, steps, layers and fields."""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0010_memory.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
