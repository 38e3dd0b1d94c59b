"""Data pipelines and subsets, evaluations with full identity, environment facts."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0005_knowledge.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
