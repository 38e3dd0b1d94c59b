"""lathe_log: log a training to Lathe. One file, standard library only, Python 3.9 or newer, Linux and macOS.

    import lathe_log
    run = lathe_log.init("my-project", config={"optim": {"lr": 3e-4}})
    run.log({"loss": 2.5, "grad_norm/layers.3": 0.1}, step=1)
    run.event("new mixture", kind="data", detail={"web": 0.4})
    run.finish()

- `log` appends to a file (the spool) and returns; a background thread sends it. Whatever `log` returned for survives
  a SIGKILL of the process; whatever `flush` returned True for is committed in Lathe's database.
- Nothing here raises into the training. What could not be logged is said once through `logging`.
- When Lathe is away the spool waits. The next process with the same spool folder sends it, as does
  `python -m lathe_log`. What is sent twice is stored once.
- Values are float64; NaN and both infinities are values. Any order of steps is fine.
- Every rank may log. Ranks above 0 get `@rank=R` behind the names; all ranks of one launch share a run and a segment.
- Memory and disk are bounded: nothing is queued in memory; beyond `max_spool_bytes` of unsent log, values are dropped
  and counted. `finish`, also at exit, waits at most `timeout_s`.
- A forked child (a data loader's worker) logs nothing. Signals are left alone.
- Rank 0 says which code ran: the commit of the working directory's repository, and what is changed on top of it as a
  patch (tracked files, and small new source files), without writing to the repository.

Where Lathe is: `url` and `token`, else LATHE_API_URL and LATHE_TOKEN, else the `lathe up` of this machine (LATHE_HOME).
The spool folder, which belongs to one Lathe: `spool`, else LATHE_SPOOL, else ~/.lathe/spool.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import gzip
import hashlib
import http.client
import json
import logging
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

__all__ = ["Run", "config", "event", "finish", "flush", "init", "log", "send_spool"]
__version__ = "0.1.0"

PIECE_BYTES = 1 << 20  # sent at once
PART_BYTES = 8 << 20  # of one file of the spool
MAX_LINE_BYTES = 4 << 20
VALUES_PER_LINE = 2000
MAX_NAME_CHARACTERS = 500
PERIOD_S = 1.0  # between two sends
MAX_PAUSE_S = 15.0  # between two attempts while Lathe is away
REQUEST_TIMEOUT_S = 10.0
SWEEP_EVERY_S = 30.0  # looking for what earlier processes left
MAX_PATCH_BYTES = 1 << 20
MAX_NEW_FILE_BYTES = 64 << 10
SOURCE_SUFFIXES = (".py", ".pyx", ".sh", ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".c", ".cpp", ".cu", ".h")
EXIT_S = 3.0  # that a process which ends without `finish` waits for Lathe
EVENT_KINDS = ("note", "data", "code", "config", "environment", "eval", "fork")

_log = logging.getLogger("lathe_log")
_said: dict[str, None] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _say(what: str) -> None:
    """Once for each message."""
    if what not in _said and len(_said) < 1000:
        _said[what] = None
        _log.warning(what)


def _never_raises(function: _Function) -> _Function:
    """A training must not fail because of its log: the error is said, and the result is None."""

    @functools.wraps(function)
    def quiet(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            _say(f"{function.__name__}: {type(error).__name__}: {error}")
            return None

    return cast(_Function, quiet)


# --- the spool of one process: stream.json, lock, and the log in parts named by the offset of their first byte


def frame(body: Mapping[str, Any]) -> bytes:
    """One line of a log, as Lathe's training events: crc32 and JSON (with NaN and Infinity)."""
    text = encode(body)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def encode(body: Mapping[str, Any]) -> bytes:
    """JSON (with NaN and Infinity) of at most MAX_LINE_BYTES. Raises ValueError."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    if len(text) > MAX_LINE_BYTES:
        raise ValueError(f"{len(text)} bytes at once are more than {MAX_LINE_BYTES}")
    return text


class Spool:
    """Appends by one process, reads by one thread. Parts before `acked` are removed."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder, self._lock, self._guard = folder, lock, threading.RLock()
        self.stream: dict[str, Any] = json.loads((folder / "stream.json").read_text(encoding="utf-8"))
        self._parts = sorted(int(path.stem) for path in folder.glob("*.log")) or [0]
        self._file = self._open(self._parts[-1])
        self.acked = self._parts[0]
        self.refused = 0  # lines that were put aside
        self.opened = False

    @classmethod
    def create(cls, root: Path, stream: Mapping[str, Any]) -> Spool:
        """A new one. It appears under its name with its lock held, so that nobody takes it for an orphan."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = root / f".new-{stream['id']}"
        draft.mkdir(mode=0o700)
        lock = os.open(str(draft / "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (draft / "stream.json").write_bytes(encode(stream))
        folder = root / str(stream["id"])
        draft.rename(folder)
        return cls(folder, lock)

    @classmethod
    def adopt(cls, folder: Path) -> Spool | None:
        """That of a process which is gone; None while it lives. A torn last line goes; a missing end is noted."""
        try:
            lock = os.open(str(folder / "lock"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            spool = cls(folder, lock)
            spool._mend()
        except (OSError, ValueError) as error:  # it lives, or somebody else just removed it, or it is damaged
            os.close(lock)
            if isinstance(error, ValueError):
                _say(f"{folder} is damaged and left alone: {error}")
            return None
        return spool

    @property
    def end(self) -> int:
        with self._guard:
            return self._parts[-1] + os.fstat(self._file).st_size

    def describe(self, **more: Any) -> None:
        """Change what the stream is opened with. Raises ValueError when that is too large."""
        draft = self.folder / "stream.json.new"
        draft.write_bytes(encode({**self.stream, **more}))
        draft.replace(self.folder / "stream.json")
        self.stream.update(more)

    def append(self, line: bytes) -> None:
        """A whole line or nothing. Raises OSError."""
        with self._guard:
            size = os.fstat(self._file).st_size
            if size >= PART_BYTES:
                base, old = self._parts[-1] + size, self._file
                self._file, size = self._open(base), 0
                self._parts.append(base)
                os.close(old)
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, size)
                raise OSError(errno.ENOSPC, "no space left for the spool", str(self.folder))

    def read(self, offset: int, limit: int) -> bytes:
        """Whole lines from `offset` on: at most `limit` bytes, or one longer line."""
        with self._guard:
            base = max(part for part in self._parts if part <= offset)
        with self._path(base).open("rb") as part:
            part.seek(offset - base)
            data = part.read(limit)
            cut = data.rfind(b"\n") + 1
            return data[:cut] if cut else data + part.readline(MAX_LINE_BYTES)

    def ack(self, offset: int) -> None:
        """Everything before `offset` is safe elsewhere; whole parts of it are removed."""
        with self._guard:
            self.acked = offset
            while len(self._parts) > 1 and self._parts[1] <= offset:
                self._path(self._parts[0]).unlink()
                del self._parts[0]

    def reconcile(self, known: int) -> None:
        """Go on where the server is, as far as it is still here."""
        self.acked = min(max(known, self._parts[0]), self.end)
        self.opened = True

    def close(self, remove: bool = False) -> None:
        if remove:
            shutil.rmtree(str(self.folder), ignore_errors=True)
        os.close(self._file)
        os.close(self._lock)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's alone."""
        os.close(self._lock)

    def _path(self, base: int) -> Path:
        return self.folder / f"{base:020d}.log"

    def _open(self, base: int) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(str(self._path(base)), flags, 0o600)

    def _mend(self) -> None:
        data = self._path(self._parts[-1]).read_bytes()
        whole = data.rfind(b"\n") + 1
        os.ftruncate(self._file, whole)
        last = data[:whole].rstrip(b"\n").rpartition(b"\n")[2]
        found = re.match(rb'\w{8} {"kind":"(\w+)","step":(-?\d+)', last)
        if not found or found[1] != b"finished":
            said = {"message": "its process vanished", "remedy": "start it again from its last checkpoint"}
            step = int(found[2]) if found else 0
            self.append(frame({"kind": "finished", "step": step, "reason": "stopped", **said}))


# --- HTTP


_ABOUT_THIS_LINE = (400, 413, 422)  # statuses that another line need not get


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class Api:
    """One kept connection. Address and token are looked up anew for each connection: `lathe up` may have moved."""

    def __init__(self, url: str | None, token: str | None) -> None:
        self._url, self._token = url, token
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, kind: str) -> dict[str, Any]:
        """Raises OSError or http.client.HTTPException when nobody answers, Refused for any other answer than 200."""
        headers = {"Content-Type": kind}
        if kind != "application/json":
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        for reused in (self._connection is not None, False):
            try:
                return self._exchange(path, body, headers)
            except (http.client.HTTPException, OSError):
                self.close()
                if not reused:  # a kept connection may have been closed meanwhile: once more on a new one
                    raise
        raise AssertionError

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        if self._connection is None:
            url, self._bearer = self._address()
            parts = urllib.parse.urlsplit(url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_TIMEOUT_S)
            self._prefix = parts.path.rstrip("/")
        headers = {**headers, "Authorization": f"Bearer {self._bearer}"}
        self._connection.request("POST", f"{self._prefix}/api/v1/ingest{path}", body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        if answer.status != 200:
            try:
                detail = json.loads(text)["detail"]
            except (ValueError, KeyError, TypeError):
                detail = text[:200]
            raise Refused(answer.status, detail)
        return cast(dict[str, Any], json.loads(text))

    def _address(self) -> tuple[str, str]:
        url = self._url or os.environ.get("LATHE_API_URL", "")
        token = self._token or os.environ.get("LATHE_TOKEN", "")
        services = Path(os.environ.get("LATHE_HOME", "~/.lathe")).expanduser() / "services"
        try:
            url = url or f"http://127.0.0.1:{json.loads((services / 'api.json').read_text())['port']}"
            token = token or (services / "token").read_text()
        except (OSError, ValueError, KeyError) as error:
            raise OSError("no Lathe is known: set LATHE_API_URL and LATHE_TOKEN, or use `lathe up`") from error
        return url, token


def drain(spool: Spool, api: Api, enough: Callable[[], bool] = lambda: False) -> bool:
    """Send what is in the spool until `enough`; returns whether that was everything.

    Raises as `Api.post` when Lathe is away or refuses the token.
    """
    while spool.acked < spool.end or not spool.opened:
        if enough():
            return False
        if not spool.opened:
            request = {**spool.stream, "start_step": spool.stream["start_step"] or 0}
            spool.reconcile(api.post("/streams", encode(request), "application/json")["offset"])
            continue
        try:
            _send(spool, api, spool.read(spool.acked, PIECE_BYTES))
        except Refused as refusal:
            if refusal.status == 404:  # the store was set back to an earlier state
                spool.opened = False
            elif refusal.status in _ABOUT_THIS_LINE:
                _send_line_by_line(spool, api, spool.read(spool.acked, PIECE_BYTES))
            else:
                raise
    return True


def _send(spool: Spool, api: Api, lines: bytes) -> None:
    path = f"/streams/{spool.stream['id']}?offset={spool.acked}"
    spool.ack(api.post(path, lines, "application/octet-stream")["offset"])


def _send_line_by_line(spool: Spool, api: Api, lines: bytes) -> None:
    """One of them is refused: put it aside, so that it does not keep the others back."""
    for line in lines.splitlines(keepends=True):
        try:
            _send(spool, api, line)
        except Refused as refusal:
            if refusal.status not in _ABOUT_THIS_LINE:
                raise
            _say(f"a line was refused and kept in {spool.folder.parent / 'refused.txt'}: {refusal}")
            with (spool.folder.parent / "refused.txt").open("ab") as aside:
                aside.write(line)
            spool.refused += 1
            spool.ack(spool.acked + len(line))


def _orphans(root: Path) -> Iterator[Spool]:
    for folder in sorted(root.glob("[0-9a-f]*")):
        spool = Spool.adopt(folder)
        if spool is not None:
            yield spool


def send_spool(root: Path, api: Api, enough: Callable[[], bool] = lambda: False) -> int:
    """Send what processes that are gone left behind; returns how many logs. Raises as `drain`."""
    sent = 0
    for spool in _orphans(root):
        done = False
        try:
            done = drain(spool, api, enough)
        except Refused as refusal:
            if refusal.status not in (404, *_ABOUT_THIS_LINE):
                raise
            _say(f"{spool.folder} is refused and left alone: {refusal}")
        finally:
            spool.close(remove=done)
        sent += done
        if enough():
            break
    return sent


class Sender(threading.Thread):
    """Sends one process's spool as it grows, and the orphans beside it when there is nothing else to do."""

    def __init__(self, spool: Spool, api: Api, settled: Callable[[], bool]) -> None:
        super().__init__(name="lathe_log", daemon=True)
        self._spool, self._api, self._settled = spool, api, settled
        self._wake = threading.Event()
        self._sent = threading.Condition()
        self._stop_asked = False
        self._next_sweep = 0.0

    def run(self) -> None:
        pause = 0.5
        while not self._stop_asked:
            self._wake.wait(PERIOD_S)
            self._wake.clear()
            away = self._round()
            with self._sent:
                self._sent.notify_all()
            if away and not self._stop_asked:
                self._wake.wait(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, MAX_PAUSE_S)
            elif not away:
                pause = 0.5
        self._api.close()

    def stop(self) -> None:
        self._stop_asked = True
        self._wake.set()

    def flush(self, timeout_s: float) -> bool:
        """Wait at most so long until everything is acknowledged; Lathe may come back meanwhile."""
        end, deadline = self._spool.end, time.monotonic() + timeout_s
        with self._sent:
            while self._spool.acked < end or not self._spool.opened:
                left = deadline - time.monotonic()
                if left <= 0 or not self.is_alive():
                    return False
                self._wake.set()
                self._sent.wait(min(left, PERIOD_S))
        return True

    def _round(self) -> bool:
        """True when Lathe is away."""
        try:
            if self._settled():
                drain(self._spool, self._api)
            if time.monotonic() >= self._next_sweep and not self._wake.is_set():
                send_spool(self._spool.folder.parent, self._api, enough=self._wake.is_set)
                self._next_sweep = time.monotonic() + SWEEP_EVERY_S
        except Exception as error:
            _say(f"the log waits in {self._spool.folder}: {error}")
            return True
        return False


# --- what a training calls


class Run:
    """One process of a training. Made by `init`; also a context manager that finishes it.

    Without a spool, and in a forked child, everything is left out.
    """

    def __init__(self, stream: Mapping[str, Any], spool: Spool | None, api: Api, max_spool_bytes: int) -> None:
        self.id, self.rank = str(stream["run_id"]), int(stream["rank"])
        self._suffix = f"@rank={self.rank}" if self.rank else ""
        self._max_spool_bytes = max_spool_bytes
        self._lock = threading.RLock()
        self._step: int = stream["start_step"] or 0
        self._settled = False
        self._dropped = self._refused = 0
        self._pid = 0
        if spool is not None:
            self._spool, self._pid = spool, os.getpid()
            self._sender = Sender(spool, api, lambda: self._settled)
            self._sender.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        self.finish(*(("completed", "") if error is None else _ending(error)))

    @_never_raises
    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Values measured at `step` (None: the one after the last); nested mappings are joined with dots.

        What float() takes is a value, tensors of one element too; anything else is left out and said once.
        """
        items = list(self._numbers(values, ""))
        with self._lock:
            self._step = self._step + 1 if step is None else _checked(step)
            self._settle(self._step)
            for first in range(0, len(items), VALUES_PER_LINE):
                part = dict(items[first : first + VALUES_PER_LINE])
                self._write({"kind": "metrics", "step": self._step, "values": part}, len(part))

    @_never_raises
    def config(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Before the first step: what is declared. Later: what is really used from `step` (None: the last) on."""
        flat = flatten(values)
        with self._lock:
            if self._is_open() and not self._settled:
                self._spool.describe(config={**self._spool.stream["config"], **flat})
            else:
                step = self._step if step is None else _checked(step)
                self._write({"kind": "effective", "step": step, "values": flat}, len(flat))

    @_never_raises
    def event(
        self, title: str, kind: str = "note", step: int | None = None, detail: Mapping[str, Any] | None = None
    ) -> None:
        """A change or happening at `step` (None: the last).

        `kind`: note, data, code, config, environment, eval or fork.
        """
        if kind not in EVENT_KINDS:
            raise ValueError(f"'{kind}' is none of {', '.join(EVENT_KINDS)}")
        with self._lock:
            step = self._step if step is None else _checked(step)
            title = str(title).replace("\0", "")
            body = {"kind": "note", "step": step, "what": kind, "title": title, "detail": flatten(detail or {})}
            self._write({**body, "wall_time": time.time()}, 1)

    @_never_raises
    def flush(self, timeout_s: float = 30.0) -> bool:
        """True: everything logged since the last call is committed in Lathe's database.

        False: Lathe did not come back within `timeout_s`, or it refused a line, which lies in `refused.txt` then.
        """
        if not self._is_open():
            return False
        with self._lock:
            self._settle(self._step + 1)
        sent, before = self._sender.flush(timeout_s), self._refused
        self._refused = self._spool.refused
        return sent and self._refused == before

    @_never_raises
    def finish(self, reason: str = "completed", message: str = "", timeout_s: float = 10.0) -> bool:
        """The end: `reason` is completed, stopped or failed. True: everything arrived, and nothing was refused.

        What did not arrive within `timeout_s` waits in the spool.
        """
        if not self._is_open():
            return False
        with self._lock:
            self._settle(self._step + 1)
            if self._dropped:
                self.event(f"lathe_log dropped {self._dropped} values: the spool was full")
            self._pid = 0
            end = {"kind": "finished", "step": self._step, "reason": reason, "message": message}
            self._spool.append(frame({**end, "remedy": ""}))
        done = self._sender.flush(timeout_s)
        self._sender.stop()
        self._sender.join(1.0)
        if not done:
            _say(f"not all of run {self.id} is sent yet; the next run sends it, or: python -m lathe_log")
        if not self._sender.is_alive():
            self._spool.close(remove=done)
        return done and not self._spool.refused

    def _is_open(self) -> bool:
        return self._pid == os.getpid()

    def _settle(self, first_step: int) -> None:
        """The first step that is logged says where this process began, unless `init` did."""
        if self._is_open() and not self._settled:
            if self._spool.stream["start_step"] is None:
                self._spool.describe(start_step=max(0, first_step - 1))
            self._settled = True

    def _write(self, body: Mapping[str, Any], num_values: int) -> None:
        if not self._is_open():
            _say("logged after the end of the run, in a forked process, or without a spool: left out")
            return
        line = frame(body)
        if self._spool.end - self._spool.acked > self._max_spool_bytes:
            self._dropped += num_values
            _say(f"the spool {self._spool.folder} is full: values are dropped until Lathe is back")
            return
        self._spool.append(line)

    def _numbers(self, values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
        for key, value in values.items():
            name = f"{prefix}{key}"
            if type(value) is not float:
                if isinstance(value, Mapping):
                    yield from self._numbers(value, f"{name}.")
                    continue
                try:
                    if isinstance(value, (str, bytes)):
                        raise TypeError("text is no number")
                    value = float(value)
                except Exception as error:
                    _say(f"'{name[:80]}' is left out: {error}")
                    continue
            if not 0 < len(name) <= MAX_NAME_CHARACTERS - 20 or "\0" in name:
                _say(f"'{name[:80]}' is left out: the name is empty, too long or has a NUL")
                continue
            yield name if "@rank=" in name else name + self._suffix, value


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys; lists become JSON, and what JSON lacks becomes its text. NUL characters go."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}".replace("\0", "")
        if getattr(value, "ndim", None) == 0:  # a number of numpy or torch
            value = value.item()
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        elif value is None or isinstance(value, (bool, int, float)):
            flat[name] = value
        else:
            text = json.dumps(value, default=str) if isinstance(value, (list, tuple)) else str(value)
            flat[name] = text.replace("\0", "").replace("\\u0000", "")
    return flat


_runs: list[Run] = []


def init(
    project: str,
    run: str | None = None,
    name: str = "",
    config: Mapping[str, Any] | None = None,
    *,
    start_step: int | None = None,
    start_checkpoint: str = "",
    code_version: str | None = None,
    parent: tuple[str, int] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    start: str | None = None,
    spool: str | None = None,
    url: str | None = None,
    token: str | None = None,
    max_spool_bytes: int = 4 << 30,
) -> Run:
    """Begin, or with the `run` of an earlier process go on: that makes another segment of the same run.

    Names of project and run keep ASCII letters, digits, dot, dash and underscore; other characters become a dash, and
    those of other scripts a short hash, so that different names stay different.
    `start_step`: steps already made (None: the first that is logged tells). `code_version`: None asks git; where the
    working tree is changed it is `worktree-` and the hash of its files, and the changes are sent too.
    `parent`: run and step of a fork. `rank`, `world_size`: None asks RANK and WORLD_SIZE, then SLURM.
    `start`: what all ranks of one launch share (None: LATHE_START, torchrun, SLURM, or the common parent process).
    """
    stream: dict[str, Any] = {"run_id": run or "", "rank": 0, "start_step": None}
    made: Spool | None = None
    try:
        stream.update(_launch(rank, world_size, start), start_step=None if start_step is None else _whole(start_step))
        stream.update(_process(), start_checkpoint=_text(start_checkpoint), name=_text(name))
        patch = _describe_code(stream, code_version)
        digest = hashlib.sha256(stream["start"].encode()).hexdigest()[:8]
        stream.update(project_id=_slug(project), run_id=_slug(run or f"{_slug(name or project)}-{digest}"))
        stream["config"] = _bounded(flatten(config or {}))
        stream["seed"] = _whole(stream["config"].get("seed"))
        if parent is not None:
            stream.update(parent_run_id=_slug(parent[0]), parent_step=_whole(parent[1]))
        made = Spool.create(_spool_root(spool), stream)
        for kind, fields in _first_lines(stream, patch):
            made.append(frame({"kind": kind, "step": stream["start_step"] or 0, **fields}))
    except Exception as error:  # a training must not fail because of its log
        _say(f"init: nothing is logged: {type(error).__name__}: {error}")
    _runs.append(Run(stream, made, Api(url, token), max_spool_bytes))
    return _runs[-1]


def _first_lines(stream: Mapping[str, Any], patch: dict[str, Any] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each process says besides rank 0's description: where it runs, when there are several; and the patch."""
    if stream["world_size"] > 1:
        yield "effective", {"values": {f"environment.rank.{stream['rank']}.host": platform.node()}}
    if patch is not None:
        yield "patch", patch


def _bounded(config: dict[str, Any]) -> dict[str, Any]:
    try:
        encode(config)
    except ValueError as error:
        _say(f"init: the configuration is left out: {error}")
        return {}
    return config


def _launch(rank: int | None, world_size: int | None, start: str | None) -> dict[str, Any]:
    known = os.environ.get
    rank = int(known("RANK", known("SLURM_PROCID", "0"))) if rank is None else rank
    size = int(known("WORLD_SIZE", known("SLURM_NTASKS", "1"))) if world_size is None else world_size
    rank, size = int(rank), int(max(size, rank + 1))
    return {"rank": rank, "world_size": size, "start": _text(start or _start_of_launch(size))}


def _process() -> dict[str, Any]:
    return {
        "id": uuid.uuid4().hex,
        "origin": _text(f"{platform.node()}:{os.getcwd()}"),
        "environment": _environment(),
        "wall_time": time.time(),
    }


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """As `Run.log`, of the newest run."""
    _newest("log", values, step)


def config(values: Mapping[str, Any], step: int | None = None) -> None:
    """As `Run.config`, of the newest run."""
    _newest("config", values, step)


def event(title: str, kind: str = "note", step: int | None = None, detail: Mapping[str, Any] | None = None) -> None:
    """As `Run.event`, of the newest run."""
    _newest("event", title, kind, step, detail)


def flush(timeout_s: float = 30.0) -> bool:
    """As `Run.flush`, of the newest run."""
    return bool(_newest("flush", timeout_s))


def finish(reason: str = "completed", message: str = "", timeout_s: float = 10.0) -> bool:
    """As `Run.finish`, of the newest run."""
    return bool(_newest("finish", reason, message, timeout_s))


def _newest(method: str, *arguments: Any) -> Any:
    if _runs:
        return getattr(_runs[-1], method)(*arguments)
    _say(f"{method}: call init first")
    return None


def _whole(value: Any) -> int:
    """Lathe takes no others, here."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < 2**63 else 0


def _text(value: object) -> str:
    return str(value).replace("\0", "")[:500]


def _slug(text: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:110] or "unnamed"
    return slug if text.isascii() else f"{slug}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _checked(step: Any) -> int:
    """Raises ValueError for what is no step."""
    number = int(step)
    if not -(2**63) < number < 2**63:
        raise ValueError(f"the step {number} does not fit 64 bits")
    return number


def _spool_root(given: str | None) -> Path:
    return Path(given or os.environ.get("LATHE_SPOOL", "~/.lathe/spool")).expanduser().absolute()


def _start_of_launch(world_size: int) -> str:
    """What all ranks of this launch have in common, and no other launch."""
    given, known = os.environ.get("LATHE_START"), os.environ.get
    if given:
        return given
    if known("TORCHELASTIC_RUN_ID", "none") != "none":
        return f"torchelastic-{known('TORCHELASTIC_RUN_ID')}-{known('TORCHELASTIC_RESTART_COUNT', '0')}"
    if known("SLURM_JOB_ID"):
        return f"slurm-{known('SLURM_JOB_ID')}.{known('SLURM_STEP_ID', '0')}-{known('SLURM_RESTART_COUNT', '0')}"
    if world_size == 1:
        return uuid.uuid4().hex
    try:  # when the parent began tells it from an earlier process of the same number
        began = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        began = ""
    return f"{platform.node()}-{os.getppid()}-{began}-{known('TORCHELASTIC_RESTART_COUNT', '0')}"


# --- which code runs


def _describe_code(stream: dict[str, Any], given: str | None) -> dict[str, Any] | None:
    """Fill in `code_version` and what the environment says of git; returns the patch on HEAD where rank 0 has one."""
    stream["code_version"] = _text(given or "")
    if given is not None:
        return None
    try:
        stream["code_version"] = head = _git("rev-parse", "HEAD").strip()
        if stream["rank"] != 0:
            return None
        patch = _uncommitted(Path(_git("rev-parse", "--show-toplevel").rstrip("\n")), head)
    except (OSError, subprocess.SubprocessError):  # no git, no repository, or too slow: what is known stays
        return None
    stream["environment"].update({"git.commit": head, "git.dirty": patch is not None})
    if patch is not None:
        stream["code_version"] = patch["version"]
    return patch


def _uncommitted(top: Path, head: str) -> dict[str, Any] | None:
    """How the working tree differs from `head`. Index and objects are temporary ones.

    Raises OSError or SubprocessError.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = top / _git("rev-parse", "--git-path", "index", top=top).rstrip("\n")
        objects = top / _git("rev-parse", "--git-path", "objects", top=top).rstrip("\n")
        shutil.copyfile(str(index), f"{folder}/index")  # with it git need not read files that are unchanged
        more = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_OBJECT_DIRECTORY": folder}
        more["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(objects)
        _git("add", "-u", top=top, more=more)
        new = [name for name in _git("ls-files", "--others", "--exclude-standard", "-z", top=top).split("\0") if name]
        sources = [name for name in new if name.endswith(SOURCE_SUFFIXES) and _is_small(top / name)]
        if sources:
            _git("add", "--", *sources[:1000], top=top, more=more)
        tree = _git("write-tree", top=top, more=more).strip()
        if tree == _git("rev-parse", "HEAD^{tree}", top=top).strip():
            return None
        options = ("-p", "-U0", "-M", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
        patch = _git("diff", "--cached", *options, "HEAD", top=top, more=more).replace("\0", "")
    if len(patch) > MAX_PATCH_BYTES:
        _say(f"the uncommitted changes of {top} are too many to be logged: {len(patch)} characters")
        patch = ""
    return {"head": head, "version": f"worktree-{tree}", "patch": patch, "wall_time": time.time()}


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_NEW_FILE_BYTES


def _git(*arguments: str, top: Path | None = None, more: Mapping[str, str] | None = None) -> str:
    """Raises OSError or SubprocessError."""
    command = ["git", "-c", "core.quotePath=false", "-c", "color.ui=never", *arguments]
    done = subprocess.run(
        command, capture_output=True, timeout=5, check=True, cwd=None if top is None else str(top),
        env={**os.environ, **(more or {})},
    )  # fmt: skip
    return done.stdout.decode("utf-8", "replace")


def _environment() -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "lathe_log": __version__,
    }
    for module in ("torch", "numpy", "jax", "transformers"):
        if module in sys.modules:
            found[module] = str(getattr(sys.modules[module], "__version__", ""))
    return found


def _ending(error: BaseException) -> tuple[str, str]:
    """Reason and message of a run that an exception ended."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "stopped", type(error).__name__
    return "failed", f"{type(error).__name__}: {error}"


def _at_exit() -> None:
    error = getattr(sys, "last_value", None)
    reason, message = ("stopped", "the process ended without finish()") if error is None else _ending(error)
    for run in _runs:
        run.finish(reason, message, EXIT_S)


def _after_fork() -> None:
    for run in _runs:
        if run._pid:
            run._spool.forget()
    _runs.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)

if __name__ == "__main__":
    logging.basicConfig(format="lathe_log: %(message)s")
    where = _spool_root(sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        sys.stdout.write(f"sent {send_spool(where, Api(None, None))} logs from {where}\n")
    except (Refused, OSError, http.client.HTTPException) as problem:
        sys.exit(f"lathe_log: the logs wait in {where}: {problem}")
