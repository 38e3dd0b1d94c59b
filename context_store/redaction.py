"""Secrets are taken out of text for people before it is stored (docs/store.md says what is left as it came).

Covers known key formats, named fields and assignments of them in text, private keys and e-mail addresses; not secrets
in free prose.

Each mark says what kind of secret it replaced, so that `redactions.py` can report it; the secret itself is gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from contracts.events import Scalar

_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_KEY_FORMATS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|sk_(?:live|test)_[A-Za-z0-9]{16,}|hf_[A-Za-z0-9]{20,}|gh[opsru]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|nvapi-[\w-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|dapi[0-9a-f]{32}|hvs\.[\w-]{20,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|A[KS]IA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|ya29\.[\w-]{20,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+)"
    r"|https://hooks\.slack\.com/services/[\w/]+"
)
_URL_PASSWORD = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]{0,30}://[^\s:/@]{0,200}:)(?!\[redacted)[^\s@/]{1,500}(?=@)")
_BEARER = re.compile(r"(\b(?:Bearer|Basic) )[A-Za-z0-9._~+/-]{16,}=*")
_NAMED = (
    r"(?:passw(?:or)?d|passphrase|secret|credentials?|(?:api|access|auth|private|secret|wandb|account)[._-]?(?:key|token)"
    r"|(?:hf|hub|huggingface|github|gitlab|slack|bot|session|bearer)[._-]?token)"
)
_SECRET_FIELD = re.compile(rf"(?:^|[._-])(?:{_NAMED}|\w+_pwd)$|(?:^|\.)token$", re.I)
# `API_KEY = "..."`, `password: ...`: quoted, or a word that no expression is. Starts at the name's last part, so that a
# text without secrets is read once, whatever its words are.
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAMED}[\"']?\s{{0,8}}[:=]\s{{0,8}})(?:(?P<quote>[\"'])(?!\[redacted)[^\"'\n]{{6,500}}(?P=quote)"
    r"|(?!\[redacted)(?=[^\s\"',;()\[\]]{0,500}\d)[^\s\"',;()\[\].]{8,500}(?=[\s\"',;]|$))",
    re.I,
)
# `--api-key VALUE`, `--token=VALUE`, also as list of arguments: `"--password", "VALUE"`.
_OPTION = re.compile(
    rf"(--(?:[\w-]{{0,30}}-)?(?:{_NAMED}|token)(?:=|[\"']?,?\s{{1,8}})[\"']?)(?!\[redacted|-)[^\s\"',]{{4,500}}", re.I
)
_EMAIL = re.compile(r"(?<![\w.+-])(?P<local>[\w.+-]{1,64})@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.(?P<top>[A-Za-z]{2,})\b")
# In code `x@w.view` multiplies matrices: an address is what is quoted or in brackets, or ends as most addresses do.
_QUOTES = {"<": ">", '"': '"', "'": "'", "`": "`"}
_USUAL_END = re.compile(
    r"ai|app|at|au|be|biz|br|ca|ch|cloud|cn|co|com|cz|de|dev|dk|edu|es|eu|fi|fr|gov|gr|hk|ie|il|in|info|int|io|ir"
    r"|jp|kr|me|mil|mx|net|nl|no|nz|org|pl|pt|ro|ru|se|sg|tech|tr|tw|ua|uk|us|xyz|za",
    re.I,
)
_GOES_ON = ("(", "[", "=")  # behind a name of a program, not behind an address


def redact_code(text: str) -> str:
    """Source text without keys and passwords. NUL bytes, which the database cannot hold, go too."""
    text = _PRIVATE_KEY.sub(_mark("private_key"), text.replace("\0", ""))
    text = _KEY_FORMATS.sub(_mark("key"), text)
    text = _URL_PASSWORD.sub(rf"\1{_mark('password')}", text)
    text = _BEARER.sub(rf"\1{_mark('key')}", text)
    text = _OPTION.sub(rf"\1{_mark('password')}", text)
    return _ASSIGNED.sub(_assigned, text)


def redact_source(text: str) -> str:
    """Changes of code that are read and searched, not applied: as `redact_code`, and without e-mail addresses."""
    return _EMAIL.sub(_address_in_code, redact_code(text))


def redact_author(name: str) -> str:
    """Of a commit. An address keeps what stands before the @: it says who it was and reaches nobody."""
    return _EMAIL.sub(rf"\g<local> {_mark('email')}", redact_code(name))


def redact(text: str) -> str:
    """Prose without keys, passwords and e-mail addresses. (In code `x@w.view` is no address.)"""
    return _EMAIL.sub(_mark("email"), redact_code(text))


def redact_fields(fields: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Configuration or environment: as `redact`, and nothing of fields that are secrets by their name."""
    return {redact_code(key): _redact_field(key, value) for key, value in fields.items()}


def redact_json(value: Any) -> Any:
    """As `redact_fields`, at any depth."""
    if isinstance(value, Mapping):
        return {redact_code(str(key)): _redact_field(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_json(each) for each in value]
    return redact(value) if isinstance(value, str) else value


def _redact_field(key: str, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return redact_json(value)
    if not _SECRET_FIELD.search(key):
        return redact(value)
    return value if value.startswith("[redacted") else _mark("field")


def _address_in_code(match: re.Match[str]) -> str:
    before, after = match.string[: match.start()][-7:], match.string[match.end() : match.end() + 1]
    is_enclosed = before == "mailto:" or (after and _QUOTES.get(before[-1:]) == after)
    is_usual = _USUAL_END.fullmatch(match["top"]) and after not in _GOES_ON and match["local"] != "git"
    return _mark("email") if is_enclosed or is_usual else match[0]


def _assigned(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return f"{match['name']}{quote}{_mark('password')}{quote}"


def _mark(kind: str) -> str:
    return f"[redacted {kind}]"
