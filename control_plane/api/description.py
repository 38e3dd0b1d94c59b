"""The OpenAPI description: what FastAPI finds in the routes, with every error as a problem and numbers as they are.

`Answer` writes evidence references in their text form, and NaN and the infinities, which JSON lacks, as words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from control_plane.api.problems import Problem

_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "the request cannot be carried out as it is",
    HTTPStatus.UNAUTHORIZED: "no valid token",
    HTTPStatus.FORBIDDEN: "the token's role, or a policy, does not allow it",
    HTTPStatus.NOT_FOUND: "the named object does not exist",
    HTTPStatus.CONFLICT: "an approval or a budget does not fit",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the body is too large",
    HTTPStatus.MISDIRECTED_REQUEST: "unknown Host",
    HTTPStatus.UNPROCESSABLE_ENTITY: "a field is missing, unknown or has an impossible value",
    HTTPStatus.TOO_MANY_REQUESTS: "the token has used up what it may ask for; see Retry-After",
    HTTPStatus.INTERNAL_SERVER_ERROR: "a defect of Lathe",
    HTTPStatus.SERVICE_UNAVAILABLE: "the database does not answer; nothing stored is lost",
    HTTPStatus.INSUFFICIENT_STORAGE: "no space left",
}
_NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]}
_EVIDENCE = {"type": "string", "description": "An evidence reference: kind:id or kind:id#slice", "title": "EvidenceRef"}


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The app's `openapi`; made once, when it is first asked for."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            made.update(_completed(found))
        return made

    return openapi


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if "EvidenceRef" in schemas:
        schemas["EvidenceRef"] = _EVIDENCE
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    asked = _reachable([each["requestBody"] for each in operations if "requestBody" in each], schemas)
    answered = _reachable([each["responses"] for each in operations], schemas)
    for name in answered - asked:
        schemas[name] = _with_words(schemas[name])
    schemas["Number"] = _NUMBER
    schemas["Problem"] = Problem.model_json_schema()
    document["components"]["responses"] = {_name(status): _problem(text) for status, text in _PROBLEMS.items()}
    for operation in operations:
        refused = {str(int(status)): {"$ref": f"#/components/responses/{_name(status)}"} for status in _PROBLEMS}
        operation["responses"] |= refused
    return document


def _name(status: HTTPStatus) -> str:
    return status.phrase.replace(" ", "").replace("-", "")


def _problem(text: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": text, "content": content}


def _with_words(schema: Any) -> Any:
    """Every number may also be one of the words."""
    match schema:
        case {"type": "number", **rest}:
            return {**rest, "$ref": "#/components/schemas/Number"}
        case dict():
            return {key: _with_words(value) for key, value in schema.items()}
        case list():
            return [_with_words(each) for each in schema]
    return schema


def _reachable(part: Any, schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = list(_references(part))
    while waiting:
        name = waiting.pop()
        if name not in found and name in schemas:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(part: Any) -> Iterator[str]:
    match part:
        case dict():
            if isinstance(reference := part.get("$ref"), str):
                yield reference.rpartition("/")[2]
            for value in part.values():
                yield from _references(value)
        case list():
            for value in part:
                yield from _references(value)
