"""Requests to `/api/v1`: typed answers, pages of lists, streams, and errors a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

T = TypeVar("T")
Query = dict[str, Any]
UNAUTHORIZED = 401
_MAX_PAGES = 50


class UiSettings(BaseSettings):
    """Read from the environment: LATHE_API_URL, and LATHE_TOKEN when one person uses the page alone."""

    model_config = SettingsConfigDict(env_prefix="LATHE_", extra="ignore")

    api_url: str = ""
    token: str = ""


class ApiError(Exception):
    """The API refused or did not answer. `status` is 0 when no answer came."""

    def __init__(self, message: str, *, remedy: str, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.status = status


def connect(api_url: str) -> httpx.Client:
    """A connection pool to the API. Raises ApiError when no address is configured."""
    if not api_url:
        raise ApiError("this page does not know where the Lathe API is", remedy="start it with `lathe up`")
    return httpx.Client(base_url=f"{api_url.rstrip('/')}/api/v1", timeout=20.0)


@dataclass(frozen=True, kw_only=True)
class Transport:
    """All requests of one person; `token` decides what they may do. Every method raises ApiError."""

    http: httpx.Client
    token: str

    def get(self, path: str, kind: type[T], query: Query | None = None, *, key: str = "") -> T:
        return read(kind, self.send("GET", path, params=_given(query)), path, key=key)

    def all(self, path: str, kind: type[T], query: Query | None = None, *, key: str) -> tuple[T, ...]:
        """Every page of a list, up to the first `_MAX_PAGES`."""
        found: tuple[T, ...] = ()
        params = _given(query)
        for _ in range(_MAX_PAGES):
            answer = self.send("GET", path, params=params)
            found += read(tuple[kind, ...], answer, path, key=key)  # type: ignore[valid-type]
            if not answer.get("next"):
                break
            params["after"] = answer["next"]
        return found

    def send(self, method: str, path: str, **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        with _spoken_to(self.http):
            response = self.http.request(method, path, headers=headers, **request)
        if response.is_error:
            raise _refusal(response)
        return response.json()

    @contextmanager
    def stream(self, path: str, body: Query, *, timeout_s: float) -> Iterator[Iterator[tuple[str, str]]]:
        """(event, data) of the server-sent events that answer a POST."""
        headers = {"Authorization": f"Bearer {self.token}"}
        with (
            _spoken_to(self.http),
            self.http.stream("POST", path, headers=headers, json=body, timeout=timeout_s) as response,
        ):
            if response.is_error:
                response.read()
                raise _refusal(response)
            yield events(response.iter_lines())


@contextmanager
def _spoken_to(http: httpx.Client) -> Iterator[None]:
    """Raises ApiError where no answer comes."""
    try:
        yield
    except httpx.HTTPError as error:
        raise ApiError(
            f"the Lathe API at {http.base_url} does not answer ({type(error).__name__})",
            remedy="start it with `lathe up`; `lathe doctor` says what is wrong",
        ) from error


def _given(query: Query | None) -> Query:
    return {name: value for name, value in (query or {}).items() if value is not None}


def read(kind: type[T], answer: Any, path: str, *, key: str = "") -> T:
    """The answer, or its field `key`, as a record. Raises ApiError when it has another form."""
    try:
        return TypeAdapter(kind).validate_python(answer[key] if key else answer)
    except (ValidationError, KeyError, TypeError) as error:
        raise ApiError(
            f"the API's answer to {path} has another form than this page expects: {_first_line(error)}",
            remedy="page and API are of different versions: restart both with `lathe down` and `lathe up`",
        ) from error


def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(event, data) of server-sent events (WHATWG HTML, 9.2.6); comments are left out."""
    event, data = "message", list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            if data:
                yield event, "\n".join(data)
            event, data = "message", []
        elif name == "event":
            event = value.removeprefix(" ")
        elif name == "data":
            data.append(value.removeprefix(" "))


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return repr(error)


def _refusal(response: httpx.Response) -> ApiError:
    """The API's problem+json, or the bare status when something else answered."""
    try:
        problem = response.json()
        message, remedy = str(problem["detail"]), str(problem["remedy"])
    except (ValueError, KeyError, TypeError):
        message = f"the API answered {response.status_code} {response.reason_phrase}"
        remedy = "see `lathe doctor`"
    return ApiError(message, remedy=remedy, status=response.status_code)
