"""What was taken out of what is stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """So many secrets of one kind were taken out of one column of what belongs to `owner`. Never the secret itself.

    `where`: table and column; `owner`: run, project or case. `kind`: key, password, email, field (a field that is
    secret by its name), private_key, or "" for what an older version took out.
    """

    where: str
    owner: str
    kind: str
    count: int
