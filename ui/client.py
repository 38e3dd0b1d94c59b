"""The one seam to Lathe: HTTP requests to `/api/v1`, typed answers, and errors a person can act on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from ui.conversation import Answer, Thread, WholeThread
from ui.oversight import Flow, MadeToken, Policies, Schedule, System, Token
from ui.records import (
    Activity,
    Budget,
    Case,
    Difference,
    Effect,
    Health,
    Investigation,
    Negative,
    Opened,
    Project,
    Proposal,
    Run,
    RunDetail,
    Series,
    TimelineEvent,
)

T = TypeVar("T")
Query = dict[str, Any]
Piece = tuple[str, str | Answer]  # of an answer that is under way
UNAUTHORIZED = 401
_ANSWER_S = 600.0  # the longest silence of a model that is answering
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
class Client:
    """All requests of one person; `token` decides what they may do. Every method raises ApiError."""

    http: httpx.Client
    token: str

    def health(self) -> Health:
        return self._get("/health", Health)

    def system(self) -> System:
        return self._get("/system", System)

    def projects(self) -> tuple[Project, ...]:
        return self._all("/projects", Project, key="projects")

    def runs(self, *, role: str | None = None, project: str | None = None, limit: int = 50) -> tuple[Run, ...]:
        return self._get("/runs", tuple[Run, ...], {"role": role, "project": project, "limit": limit}, key="runs")

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

    def difference(self, before: str, after: str) -> Difference:
        """By what the newest segment of run `after` differs from that of `before`."""
        return self._get("/diff", Difference, {"before": before, "after": after})

    def investigations(self) -> tuple[Investigation, ...]:
        return self._get("/investigations", tuple[Investigation, ...], key="investigations")

    def investigate(self, run_id: str) -> Opened:
        return _read(Opened, self._send("POST", "/investigations", json={"run_id": run_id}), "/investigations")

    def investigation(self, investigation_id: str) -> Case:
        return self._get(f"/investigations/{_part(investigation_id)}", Case)

    def proposals(self, *, state: str | None = None) -> tuple[Proposal, ...]:
        """Oldest first."""
        return self._all("/proposals", Proposal, {"state": state}, key="proposals")

    def effects(self, *, state: str | None = None) -> tuple[Effect, ...]:
        """In the order of the requests."""
        return self._all("/effects", Effect, {"state": state}, key="effects")

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

    def ask_changes(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "ask-changes", comment, bound_hash)

    def edit(self, proposal_id: str, changes: Mapping[str, object], *, comment: str, bound_hash: str) -> Proposal:
        """The new proposal that takes the place of this one and waits for its own approval."""
        path = f"/proposals/{_part(proposal_id)}/edit"
        body = {"comment": comment, "bound_hash": bound_hash, "changes": dict(changes)}
        return _read(Proposal, self._send("POST", path, json=body), path, key="proposal")

    def _decide(self, proposal_id: str, verb: str, comment: str, bound_hash: str) -> None:
        body = {"comment": comment, "bound_hash": bound_hash}
        self._send("POST", f"/proposals/{_part(proposal_id)}/{verb}", json=body)

    def threads(self) -> tuple[Thread, ...]:
        """Newest first."""
        return self._get("/chat/threads", tuple[Thread, ...], key="threads")

    def thread(self, thread_id: str) -> WholeThread:
        return self._get(f"/chat/threads/{_part(thread_id)}", WholeThread)

    def open_thread(self, *, title: str, run_id: str = "", investigation_id: str = "") -> Thread:
        body = {"title": title, "run_id": run_id, "investigation_id": investigation_id}
        return _read(Thread, self._send("POST", "/chat/threads", json=body), "/chat/threads", key="thread")

    def delete_thread(self, thread_id: str) -> None:
        self._send("DELETE", f"/chat/threads/{_part(thread_id)}")

    def ask(self, thread_id: str, question: str) -> Iterator[Piece]:
        """The pieces of an answer: ("draft", words), ("restart", "") when the draft is void, and at last
        ("answer", the checked answer) or ("stopped", ""). Whoever stops reading stops the answer.
        """
        path = f"/chat/threads/{_part(thread_id)}/exchanges"
        headers, body = {"Authorization": f"Bearer {self.token}"}, {"question": question}
        with (
            _spoken_to(self.http),
            self.http.stream("POST", path, headers=headers, json=body, timeout=_ANSWER_S) as response,
        ):
            if response.is_error:
                response.read()
                raise _refusal(response)
            for event, data in events(response.iter_lines()):
                yield event, _piece(event, data, path)

    def stop(self, thread_id: str) -> None:
        self._send("POST", f"/chat/threads/{_part(thread_id)}/stop")

    def flows(self) -> tuple[Flow, ...]:
        """Which text goes to which provider of models."""
        return self._get("/chat/providers", tuple[Flow, ...], key="flows")

    def budgets(self) -> tuple[Budget, ...]:
        return self._all("/budgets", Budget, key="budgets")

    def policies(self) -> Policies:
        return self._get("/policies", Policies)

    def halt(self, reason: str) -> None:
        self._send("POST", "/policies/halt", json={"reason": reason})

    def resume(self, reason: str) -> None:
        self._send("POST", "/policies/resume", json={"reason": reason})

    def set_autonomy(self, loop: str, level: str, reason: str) -> None:
        self._send("POST", "/policies/autonomy", json={"loop": loop, "level": level, "reason": reason})

    def revoke_policy(self, policy_id: int, reason: str) -> None:
        self._send("POST", f"/policies/{policy_id}/revoke", json={"reason": reason})

    def schedules(self) -> tuple[Schedule, ...]:
        return self._get("/schedules", tuple[Schedule, ...], {"in_force": True}, key="schedules")

    def set_schedule(self, action: str, target: str, every_s: float, reason: str, older_than_s: float = 0.0) -> None:
        body = {"action": action, "target": target, "every_s": every_s, "reason": reason, "older_than_s": older_than_s}
        self._send("POST", "/schedules", json=body)

    def revoke_schedule(self, schedule_id: int, reason: str) -> None:
        self._send("POST", f"/schedules/{schedule_id}/revoke", json={"reason": reason})

    def tokens(self) -> tuple[Token, ...]:
        return self._get("/tokens", tuple[Token, ...], key="tokens")

    def make_token(self, name: str, role: str, expires_in_s: float | None) -> MadeToken:
        """The secret cannot be read again."""
        body = {"name": name, "role": role, "expires_in_s": expires_in_s}
        return _read(MadeToken, self._send("POST", "/tokens", json=body), "/tokens")

    def revoke_token(self, token_id: int) -> None:
        self._send("POST", f"/tokens/{token_id}/revoke")

    def _get(self, path: str, kind: type[T], query: Query | None = None, *, key: str = "") -> T:
        return _read(kind, self._send("GET", path, params=_given(query)), path, key=key)

    def _all(self, path: str, kind: type[T], query: Query | None = None, *, key: str) -> tuple[T, ...]:
        """Every page of a list, up to the first `_MAX_PAGES`."""
        found: tuple[T, ...] = ()
        params = _given(query)
        for _ in range(_MAX_PAGES):
            answer = self._send("GET", path, params=params)
            found += _read(tuple[kind, ...], answer, path, key=key)  # type: ignore[valid-type]
            if not answer.get("next"):
                break
            params["after"] = answer["next"]
        return found

    def _send(self, method: str, path: str, **request: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        with _spoken_to(self.http):
            response = self.http.request(method, path, headers=headers, **request)
        if response.is_error:
            raise _refusal(response)
        return response.json()


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


def _read(kind: type[T], answer: Any, path: str, *, key: str = "") -> T:
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


def _piece(event: str, data: str, path: str) -> str | Answer:
    """Raises ApiError for an answer that failed."""
    fields = json.loads(data)
    if event == "error":
        raise ApiError(str(fields["detail"]), remedy=str(fields["remedy"]))
    return _read(Answer, fields, path) if event == "answer" else str(fields.get("text", ""))


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
