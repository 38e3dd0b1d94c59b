"""Alembic's entry point. The connection is handed over by context_store.schema."""

from alembic import context

from context_store.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata)
context.run_migrations()
