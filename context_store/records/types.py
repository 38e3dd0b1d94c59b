"""Shapes shared by the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts.evidence import EvidenceRef

Evidence = tuple[EvidenceRef, ...]
Json = Mapping[str, Any]
