"""Alembic migrations. `versions/NNNN_word.py` runs `sql/NNNN_word.sql`; a test compares the result with the models."""
