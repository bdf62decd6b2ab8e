"""PostgreSQL servers of a test's own, in temporary folders: stopped, killed, paused, promoted.

They are the programs of the Debian package (`scripts/setup-tests` installs it), run as somebody
who is not root, and reached by TCP on loopback alone with a password, as servers elsewhere are.
Brokers come as a role without special rights, which owns its databases and nothing else.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from bendybus.testing.free_port import free_port

ROLE: Final = "bendybus"
PASSWORD: Final = "Not-to-be-printed"  # noqa: S105 - of servers that live as long as a test
START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 15.0
_ADMINISTRATOR: Final = "postgres"
_POLL_SECONDS: Final = 0.01
# What a test does to processes needs no sync of the disk to be survived; only a power cut does.
UNSYNCED: Final = {"fsync": "off", "full_page_writes": "off"}

# Ends all other sessions in a database, and waits until they have ended.
END_SESSIONS: Final = """
SELECT pg_terminate_backend(pid, 15000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class PostgresMissing(Exception):
    """There is no PostgreSQL here to test with."""


def programs() -> Path:
    """Return the folder with `initdb` and `postgres`, which Debian keeps out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_major_version)
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        raise PostgresMissing("no PostgreSQL server is installed; scripts/setup-tests installs it")
    return (found[-1] if found else Path(on_path or "")).parent


def _major_version(program: Path) -> int:
    version = program.parents[1].name
    return int(version) if version.isdecimal() else 0


class PostgresServer:
    """One server, started as often as a test likes on the same folder and port."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = settings or {}
        self._programs = programs()
        self._process: subprocess.Popen[bytes] | None = None
        self._names = (f"store_{number}" for number in itertools.count())
        self._free: list[str] = []

    @property
    def pid(self) -> int:
        """The process that all others of a running server are children of."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server printed so far, over all its lives."""
        return (self.folder / "server.log").read_text(errors="replace")

    def url(self, database: str) -> str:
        """Return what a broker needs to reach a database."""
        return url_of([self.port], database)

    def make(self) -> None:
        """Make the cluster and start it."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        self._run(
            "initdb",
            *("--pgdata", str(self._data), "--username", _ADMINISTRATOR, "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        self._configure(self._settings)
        self.start()
        statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        self.execute(statement.format(sql.Identifier(ROLE), PASSWORD))

    def start(self) -> None:
        """Start, and return once it can be connected to."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    # A test run that is killed must not leave servers behind.
                    *(("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()),
                    *(str(self._programs / "postgres"), "-D", str(self._data)),
                    *("-p", str(self.port)),
                ],
                stdout=log,
                stderr=log,
                **_somebody(),
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._is_ready():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.kill()
                raise AssertionError(f"the server did not start:\n{self.log}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stop it as an operator would: sessions are ended, nothing is to be recovered."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            finally:
                self.kill()

    def kill(self) -> None:
        """End all its processes without a warning, as a power cut would."""
        process, self._process = self._process, None
        if process is None:
            return
        children = _children(process.pid)
        process.kill()
        for child in children:
            _signal(child, signal.SIGKILL)
        process.wait()
        # The folder is in use until the last of them is gone.
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while any(map(_is_alive, children)):
            assert time.monotonic() < deadline, "a process of the server does not end"
            time.sleep(_POLL_SECONDS)

    def pause(self) -> None:
        """Stop all its processes where they are; to others it is a server that does not answer."""
        for pid in self._processes():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        for pid in reversed(self._processes()):
            _signal(pid, signal.SIGCONT)

    def execute(self, statement: sql.Composed | LiteralString, database: str = "") -> list[Any]:
        """Run a statement as the administrator, and return its rows."""
        with self.administrator(database or "postgres") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def administrator(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect to a database with every right."""
        return psycopg.connect(url_of([self.port], database, _ADMINISTRATOR), autocommit=True)

    # Databases

    @contextmanager
    def lent_database(self) -> Iterator[str]:
        """Give an empty database, by its URL, while the block runs.

        It is lent again later: emptying one is quicker than making one, and leaves less behind.
        """
        name = self._free.pop() if self._free else self.make_database()
        try:
            yield self.url(name)
        finally:
            self._empty(name)
            self._free.append(name)

    def make_database(self) -> str:
        """Make an empty database that belongs to the brokers' role, and return its name."""
        name = next(self._names)
        statement = sql.SQL("CREATE DATABASE {} OWNER {}")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(ROLE)))
        return name

    def _empty(self, database: str) -> None:
        self.execute(END_SESSIONS, database)
        statements = sql.SQL("DROP OWNED BY {role}; GRANT ALL ON DATABASE {database} TO {role}")
        names = {"role": sql.Identifier(ROLE), "database": sql.Identifier(database)}
        self.execute(statements.format(**names), database)

    # Standbys

    @contextmanager
    def standby(self, port: int | None = None) -> Iterator["PostgresServer"]:
        """Run a copy that follows this server: no commit is over before the copy has it too.

        A port may be given to it: that of a server that is no more. When the block ends the copy
        goes, and this server, if it runs, is on its own again.
        """
        with server_folder() as folder:
            standby = PostgresServer(folder, port=port)
            standby._run(
                "pg_basebackup",
                *("--dbname", url_of([self.port], "postgres", _ADMINISTRATOR)),
                *("--pgdata", str(standby._data), "--write-recovery-conf", "--checkpoint=fast"),
                "--no-sync",
            )
            standby.start()
            try:
                self._require_standby("*")
                self._wait_for(standby)
                yield standby
            finally:
                standby.kill()
                if self._process is not None:
                    self._require_standby("")

    def _require_standby(self, names: str) -> None:
        self.execute(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(names))
        self.execute("SELECT pg_reload_conf()")

    def _wait_for(self, standby: "PostgresServer") -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < deadline, f"the standby does not follow:\n{standby.log}"
            time.sleep(_POLL_SECONDS)

    def promote(self) -> None:
        """Make of a standby a server that can be written to."""
        [(is_promoted,)] = self.execute("SELECT pg_promote()")
        assert is_promoted, self.log

    # Processes and files

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _configure(self, settings: Mapping[str, str]) -> None:
        lines = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            # In the folder: a server that is killed leaves a megabyte in /dev/shm for ever.
            "dynamic_shared_memory_type": "mmap",
            **settings,
        }
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in lines.items())

    def _run(self, program: str, *options: str) -> None:
        done = subprocess.run(  # noqa: S603 - our own command
            [str(self._programs / program), *options],
            capture_output=True,
            text=True,
            check=False,
            **_somebody(),
        )
        assert done.returncode == 0, done.stderr

    def _is_ready(self) -> bool:
        """The server says so in the last line of this file, before anybody asked."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return lines[:1] == [str(self._process.pid)] and lines[-1].strip() in ("ready", "standby")

    def _processes(self) -> list[int]:
        """Return the first, which makes the others, and those."""
        assert self._process is not None
        return [self._process.pid, *_children(self._process.pid)]


def url_of(ports: Sequence[int], database: str, role: str = ROLE) -> str:
    """Return the URL of a database that is on the first of these servers that can be written to."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    query = "?target_session_attrs=read-write" if len(ports) > 1 else ""
    return f"postgresql://{role}:{PASSWORD}@{hosts}/{database}{query}"


@contextmanager
def server_folder() -> Iterator[Path]:
    """Make a folder that the servers' user may use, and delete it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="bendybus-postgres-", ignore_cleanup_errors=True) as at:
        if os.geteuid() == 0:
            shutil.chown(at, _somebody()["user"])
        yield Path(at)


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Run a server while the block runs."""
    with server_folder() as folder:
        server = PostgresServer(folder, settings)
        server.make()
        try:
            yield server
        finally:
            server.kill()


def _somebody() -> dict[str, Any]:
    """Who runs the programs: they refuse root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": [], "cwd": "/"}


def _children(pid: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except FileNotFoundError:
        return []


def _is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and waits to be counted does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
