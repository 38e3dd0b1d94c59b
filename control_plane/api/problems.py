"""Every error as application/problem+json (RFC 9457) with what the person can do about it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from context_store.records import Principal
from contracts.errors import (
    ApprovalInvalid,
    BudgetExceeded,
    DiskFull,
    EnvironmentFault,
    LatheError,
    NotFound,
    NotPermitted,
    RoleRequired,
)
from control_plane.api.auditing import note_request
from control_plane.api.limits import retry_after

_log = structlog.get_logger(__name__)
_STATUS: tuple[tuple[type[LatheError], HTTPStatus], ...] = (  # the first that fits
    (NotFound, HTTPStatus.NOT_FOUND),
    (RoleRequired, HTTPStatus.FORBIDDEN),
    (ApprovalInvalid, HTTPStatus.CONFLICT),
    (BudgetExceeded, HTTPStatus.CONFLICT),
    (NotPermitted, HTTPStatus.FORBIDDEN),
    (DiskFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (EnvironmentFault, HTTPStatus.SERVICE_UNAVAILABLE),
    (LatheError, HTTPStatus.BAD_REQUEST),
)


class Unauthenticated(LatheError):
    """The request carries no valid token."""


class TooManyRequests(LatheError):
    """The token has used up what it may ask for just now."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(
            "this token asks for too much at once",
            remedy=f"wait {retry_after(wait_s)} s; LATHE_API_REQUESTS_PER_S and LATHE_API_BYTES_PER_S set the limits",
        )
        self.wait_s = wait_s


class Problem(BaseModel):
    """The body of every error (RFC 9457). `type`: the class of contracts.errors, or about:blank."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


def problem(
    status: HTTPStatus, detail: str, remedy: str, *, kind: str = "about:blank", headers: dict[str, str] | None = None
) -> JSONResponse:
    """The response of one error."""
    content = {"type": kind, "title": status.phrase, "status": int(status), "detail": detail, "remedy": remedy}
    return JSONResponse(content, status_code=status, media_type="application/problem+json", headers=headers)


def install(app: FastAPI) -> None:
    """Make every error of the app a problem."""
    app.add_exception_handler(LatheError, _lathe_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _defect)


async def _lathe_error(request: Request, error: Any) -> JSONResponse:
    if isinstance(error, Unauthenticated):
        challenge = {"WWW-Authenticate": "Bearer"}
        return problem(HTTPStatus.UNAUTHORIZED, error.message, error.remedy, kind=_kind(error), headers=challenge)
    if isinstance(error, TooManyRequests):
        later = {"Retry-After": retry_after(error.wait_s)}
        return problem(HTTPStatus.TOO_MANY_REQUESTS, error.message, error.remedy, kind=_kind(error), headers=later)
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    principal: Principal | None = getattr(request.state, "principal", None)
    if isinstance(error, NotPermitted) and principal is not None:
        detail = {"refused": error.message, "status": int(status)}
        await run_in_threadpool(note_request, request, principal, detail)
    return problem(status, error.message, error.remedy, kind=_kind(error))


async def _invalid_request(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"{where}: {first['msg']}",
        "correct the request; see /api/v1/openapi.json for what there is",
    )


async def _http_error(_: Request, error: Any) -> JSONResponse:
    status = HTTPStatus(error.status_code)
    return problem(status, str(error.detail), "see /api/v1/openapi.json for what there is", headers=error.headers)


async def _defect(request: Request, error: Exception) -> JSONResponse:
    _log.error("defect", path=request.url.path, exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a defect of Lathe", "see the log of the API and report it")


def _kind(error: LatheError) -> str:
    return f"urn:lathe:{type(error).__name__}"
