"""The one seam to Lathe: HTTP requests to `/api/v1`, typed answers, and errors a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from ui.records import (
    Activity,
    Case,
    Health,
    Investigation,
    Negative,
    Proposal,
    Run,
    RunDetail,
    Series,
    TimelineEvent,
)

T = TypeVar("T")
Query = dict[str, Any]
UNAUTHORIZED = 401


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
class Client:
    """All requests of one person; `token` decides what they may do. Every method raises ApiError."""

    http: httpx.Client
    token: str

    def health(self) -> Health:
        return self._get("/health", Health)

    def runs(self, *, role: str | None = None, limit: int = 50) -> tuple[Run, ...]:
        return self._get("/runs", tuple[Run, ...], {"role": role, "limit": limit}, key="runs")

    def run(self, run_id: str) -> RunDetail:
        return self._get(f"/runs/{_part(run_id)}", RunDetail)

    def series_names(self, run_id: str, *, statistic: str | None = None) -> tuple[str, ...]:
        return self._get(f"/runs/{_part(run_id)}/series", tuple[str, ...], {"statistic": statistic}, key="names")

    def points(
        self,
        run_id: str,
        names: Sequence[str],
        *,
        buckets: int,
        lo: int | None = None,
        hi: int | None = None,
        view: str = "canonical",
    ) -> tuple[Series, ...]:
        """Downsampled by the API to about `buckets` buckets that keep extremes and non-finite points.

        The view `full` also has the points that a resume superseded, segment after segment.
        """
        if not names:
            return ()
        query = {"name": list(names), "buckets": buckets, "lo": lo, "hi": hi, "view": view}
        return self._get(f"/runs/{_part(run_id)}/points", tuple[Series, ...], query, key="series")

    def timeline(self, run_id: str) -> tuple[TimelineEvent, ...]:
        return self._get(f"/runs/{_part(run_id)}/timeline", tuple[TimelineEvent, ...], key="events")

    def investigations(self) -> tuple[Investigation, ...]:
        return self._get("/investigations", tuple[Investigation, ...], key="investigations")

    def investigation(self, investigation_id: str) -> Case:
        return self._get(f"/investigations/{_part(investigation_id)}", Case)

    def proposals(self, *, state: str | None = None) -> tuple[Proposal, ...]:
        return self._get("/proposals", tuple[Proposal, ...], {"state": state}, key="proposals")

    def activity(self, *, after: int = 0, limit: int = 200) -> tuple[Activity, ...]:
        return self._get("/activity", tuple[Activity, ...], {"after": after, "limit": limit}, key="activity")

    def negatives(self, query: str = "") -> tuple[Negative, ...]:
        return self._get("/negatives", tuple[Negative, ...], {"q": query or None}, key="negatives")

    def add_negative(self, *, evidence: Sequence[str], **fields: str) -> None:
        """Store a negative result; refused without evidence."""
        self._send("POST", "/negatives", json={**fields, "evidence": list(evidence)})

    def approve(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "approve", comment, bound_hash)

    def reject(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "reject", comment, bound_hash)

    def _decide(self, proposal_id: str, verb: str, comment: str, bound_hash: str) -> None:
        body = {"comment": comment, "bound_hash": bound_hash}
        self._send("POST", f"/proposals/{_part(proposal_id)}/{verb}", json=body)

    def _get(self, path: str, kind: type[T], query: Query | None = None, *, key: str = "") -> T:
        params = {name: value for name, value in (query or {}).items() if value is not None}
        answer = self._send("GET", path, params=params)
        try:
            return TypeAdapter(kind).validate_python(answer[key] if key else answer)
        except (ValidationError, KeyError, TypeError) as error:
            raise ApiError(
                f"the API's answer to {path} has another form than this page expects: {_first_line(error)}",
                remedy="page and API are of different versions: restart both with `lathe down` and `lathe up`",
            ) from error

    def _send(self, method: str, path: str, **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            response = self.http.request(method, path, headers=headers, **request)
        except httpx.HTTPError as error:
            raise ApiError(
                f"the Lathe API at {self.http.base_url} does not answer ({type(error).__name__})",
                remedy="start it with `lathe up`; `lathe doctor` says what is wrong",
            ) from error
        if response.is_error:
            raise _refusal(response)
        return response.json()


def _part(text: str) -> str:
    return quote(text, safe="")


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
