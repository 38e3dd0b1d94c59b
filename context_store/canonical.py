"""One text for one JSON value, and hashes of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Sorted keys, no blanks; NaN and infinities as Python writes them. Tuples become lists."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def from_canonical(text: str) -> Any:
    return json.loads(text)


def content_hash(value: Any) -> str:
    """sha256 of the canonical JSON, hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
