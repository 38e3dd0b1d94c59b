"""What a page in the reviewer's browser, or a host name that points here, could send."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from benchmarks.trust_attacks.kit import Kit
from contracts.enums import Role

_EVIL = {"Origin": "https://evil.example", "Referer": "https://evil.example/"}
_HOSTS = (
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:8000", "127.0.0.1@evil",
    "0.0.0.0",  # noqa: S104 (a name in a header)
    "[::ffff:127.0.0.1]", "localhost:80:80.evil",
)  # fmt: skip
VARIANTS: dict[str, Any] = {
    "a form": {"form": "urlencoded"},
    "a form of another kind": {"form": "multipart"},
    "JSON as plain text": {"headers": {"Content-Type": "text/plain"}},
    "JSON without a type": {"headers": {"Content-Type": ""}},
    "from another page": {"headers": _EVIL},
    "the token in a cookie": {"headers": {**_EVIL, "Cookie": "token=@; session=@; Authorization=Bearer @"}},
    "the token in the query": {"query": "token"},
    "the token in the query, otherwise": {"query": "access_token"},
    "the token in a field": {"field": "token"},
    "the token as Basic": {"headers": {"Authorization": "Basic @64"}},
    "the token without a scheme": {"headers": {"Authorization": "@"}},
    "the token under Token": {"headers": {"Authorization": "Token @"}},
    "the token in another header": {"headers": {"X-Api-Key": "@", "X-Authorization": "Bearer @"}},
    "a viewer who overrides the method": {"headers": {"X-HTTP-Method-Override": "POST"}, "method": "GET", "role": "v"},
    "a viewer who names another user": {"headers": {"X-Forwarded-User": "honest", "X-Role": "admin"}, "role": "v"},
    "a GET": {"method": "GET", "role": "r"},
    "a HEAD": {"method": "HEAD", "role": "r"},
    "a PUT": {"method": "PUT", "role": "r"},
    "two slashes": {"path": "//proposals/{}/approve"},
    "dots in the path": {"path": "/health/../proposals/{}/approve"},
    "dots that are coded": {"path": "/health/%2e%2e/proposals/{}/approve"},
    "a slash at the end": {"path": "/proposals/{}/approve/"},
    "a preflight": {"method": "OPTIONS", "headers": {**_EVIL, "Access-Control-Request-Method": "POST"}},
    **{f"host {host}": {"headers": {"Host": host}, "role": "r"} for host in _HOSTS},
}


def control(kit: Kit) -> bool:
    return kit.honest()


def attack(kit: Kit, variant: Mapping[str, Any]) -> object:
    """Without the reviewer's token in its place nothing may be approved, and no page may read an answer."""
    proposal = kit.propose()
    secret = kit.world.place.secrets[Role.REVIEWER]
    coded = base64.b64encode(f"user:{secret}".encode()).decode()
    headers = {k: v.replace("@64", coded).replace("@", secret) for k, v in variant.get("headers", {}).items()}
    if "Host" in headers:
        headers["Host"] = variant["headers"]["Host"]
    path = variant.get("path", "/proposals/{}/approve").format(proposal.id)
    if "query" in variant:
        path += "?" + urlencode({variant["query"]: secret})
    body = {"bound_hash": proposal.bound_hash, "comment": "yes"}
    body |= {variant["field"]: secret} if "field" in variant else {}
    content: dict[str, Any] = {"json": body}
    if "form" in variant:
        content = {"data": body} if variant["form"] == "urlencoded" else {"files": {"bound_hash": b"x"}, "data": body}
    method = variant.get("method", "POST")
    role = {"v": Role.VIEWER, "r": Role.REVIEWER}.get(variant.get("role", ""))
    answer = kit.http(method, path, role=role, headers=headers, **({} if method in ("GET", "HEAD") else content))
    kit.request(proposal)
    is_read = "access-control-allow-origin" in answer.headers
    return is_read or answer.is_success or answer.status_code >= 500
