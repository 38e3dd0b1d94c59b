"""Policies, edits of proposals, two reviewers, budgets of every currency with children, experiments."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0004_oversight.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
