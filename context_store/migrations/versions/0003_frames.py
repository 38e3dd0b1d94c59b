"""The hot tail as frames instead of points; numbers of runs; latest values; an index of non-finite chunks."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0003_frames.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
