"""What the control plane keeps beyond first light."""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0007_control.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
