"""What a decontamination did not read; evidence of what was refuted."""

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0011"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0013_gaps.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
