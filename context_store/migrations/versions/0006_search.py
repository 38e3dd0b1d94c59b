"""What hybrid search reads: texts, embeddings, links of incidents."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    sql = Path(__file__).parents[1] / "sql" / "0006_search.sql"
    op.get_bind().exec_driver_sql(sql.read_text().replace("%", "%%"))


def downgrade() -> None:
    raise NotImplementedError("restore a backup to go back to an older version")
