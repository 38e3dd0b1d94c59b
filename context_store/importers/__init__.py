"""Importers: what a team already has becomes runs like any other. `discover`, then `check` or `store`."""

from context_store.importers.formats import Columnar
from context_store.importers.importing import Found, Options, check, discover, fingerprint, store
from context_store.importers.report import Refused, Report, RunReport, SourceReport

__all__ = [
    "Columnar",
    "Found",
    "Options",
    "Refused",
    "Report",
    "RunReport",
    "SourceReport",
    "check",
    "discover",
    "fingerprint",
    "store",
]
