"""HTTP API under /api/v1. `app.py` builds it; one file in `routes/` per resource. See README.md."""
