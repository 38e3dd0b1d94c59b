"""Secrets are taken out of text before it is stored. Covers known key formats and named fields, not free prose."""

from __future__ import annotations

import re
from collections.abc import Mapping

from contracts.events import Scalar

_KEY_FORMATS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+)"
)
_URL_PASSWORD = re.compile(r"(\w+://[^\s:/@]+:)[^\s@/]+(?=@)")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
_SECRET_FIELD = re.compile(
    r"(?:^|[._-])(?:password|passwd|secret|credentials?|(?:api|access|auth|private|secret)[_-]?(?:key|token))$", re.I
)
_REPLACEMENT = "[redacted]"


def redact_code(text: str) -> str:
    """Source text without API keys and passwords in urls. NUL bytes, which the database cannot hold, go too."""
    text = _KEY_FORMATS.sub(_REPLACEMENT, text.replace("\0", ""))
    return _URL_PASSWORD.sub(rf"\1{_REPLACEMENT}", text)


def redact(text: str) -> str:
    """Prose without API keys, passwords in urls and e-mail addresses. (In code `x@w.view` is no address.)"""
    return _EMAIL.sub(_REPLACEMENT, redact_code(text))


def redact_fields(fields: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Configuration or environment: as `redact`, and nothing of fields that are secrets by their name."""
    return {redact_code(key): _redact_field(key, value) for key, value in fields.items()}


def _redact_field(key: str, value: Scalar) -> Scalar:
    if not isinstance(value, str) or not value:
        return value
    return _REPLACEMENT if _SECRET_FIELD.search(key) else redact(value)
