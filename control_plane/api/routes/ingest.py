"""POST /ingest: trainings elsewhere send their logs here (clients/lathe_log). See context_store.streams."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Annotated, Any

import zstandard
from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from context_store.records import NewStream
from contracts.errors import LogFormatError, UserInputError
from contracts.events import Scalar
from control_plane.api.access import ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body
from control_plane.api.guards import MAX_INGEST_BYTES, too_large

router = APIRouter(prefix="/ingest", tags=["ingest"])
MAX_PIECE_BYTES = MAX_INGEST_BYTES  # of lines, after decompression
_LINES = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]


class OpenStream(BaseModel):
    """As context_store.records.NewStream."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id
    run_id: Id
    project_id: Id
    name: Text = ""
    start: Text
    rank: Annotated[int, Field(ge=0, lt=2**31)] = 0
    world_size: Annotated[int, Field(ge=1, lt=2**31)] = 1
    origin: Text = ""
    start_step: Annotated[int, Field(ge=0, lt=2**63)] = 0
    code_version: Text = ""
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    start_checkpoint: Text = ""
    config: dict[str, Scalar] = {}
    environment: dict[str, Scalar] = {}
    wall_time: Annotated[float, Field(ge=0, lt=1e11)]
    parent_run_id: Id | None = None
    parent_step: Annotated[int | None, Field(ge=0, lt=2**63)] = None


class Opened(Body):
    """`segment`: which start of the run this stream belongs to."""

    run: str
    segment: int
    offset: int


class Appended(Body):
    """`offset` is committed: everything before it is kept."""

    offset: int


@router.post("/streams", response_model=Opened)
def open_stream(store: StoreDep, principal: ResearcherDep, wish: OpenStream) -> Answer:
    """Idempotent by `id`. `offset`: where to go on sending; everything before it is kept."""
    fields = {name: getattr(wish, name) for name in OpenStream.model_fields}
    stream = store.streams.open(NewStream(**fields, owner=principal.name))
    return Answer({"run": stream.run_id, "segment": stream.segment, "offset": stream.offset_bytes})


async def _body(request: Request) -> bytes:
    return await request.body()


@router.post("/streams/{stream_id}", response_model=Appended, openapi_extra=_LINES)
def append(
    store: StoreDep,
    _: ResearcherDep,
    after: BackgroundTasks,
    stream_id: str,
    body: Annotated[bytes, Depends(_body)],
    offset: Annotated[int, Query(ge=0, lt=2**62)],
    content_encoding: Annotated[str, Header()] = "identity",
) -> JSONResponse:
    """Whole lines (`crc32 json`) of the log from byte `offset` on; may be compressed with gzip or zstd.

    Exactly once: what is sent again changes nothing. The answer's `offset` is acknowledged, which means committed.
    """
    lines = _decompressed(body, content_encoding)
    if len(lines) > MAX_PIECE_BYTES:
        return too_large(MAX_PIECE_BYTES, "the lines of one piece are")
    stream, ended = store.streams.append(stream_id, offset, lines)
    if ended:
        after.add_task(store.streams.seal, stream)
    answer = Answer({"offset": stream.offset_bytes})
    answer.background = after
    return answer


def _decompressed(body: bytes, encoding: str) -> bytes:
    """At most one byte more than allowed, however small the body is."""
    opened: Any
    match encoding:
        case "identity":
            return body
        case "gzip":
            opened = gzip.GzipFile(fileobj=io.BytesIO(body))
        case "zstd":
            opened = zstandard.ZstdDecompressor(max_window_size=MAX_PIECE_BYTES).stream_reader(io.BytesIO(body))
        case _:
            raise UserInputError(f"content encoding '{encoding}' is unknown", remedy="send gzip, zstd or plain lines")
    try:
        lines: bytes = opened.read(MAX_PIECE_BYTES + 1)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise LogFormatError(f"the body is no {encoding}: {error}", remedy="send the piece again") from error
    return lines
