"""Few brokers, and a run of a client for each, for the whole session.

They are started before the first test, so that those without them run beside. A namespace may have
a hundred partitioned entities, so a client with many cases has several brokers.

Clients keep time: locks of a few seconds, answers that they wait for. Beside so many others on a
small machine one may come too late, and that says nothing of the broker. So a case that fails is
tried once more when all others are done, alone, and what came of the first try is said at the end.
More than a few such cases are no accident, and fail.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.settings import TlsFiles
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.compat.cases import PROTON_PYTHON, ROOT, Case, write_namespace
from tests.compat.client_run import ClientRun, SecondTry
from tests.compat.of_many import many_front_ends

# Half of them have a partitioned entity, and some have another beside it.
CASES_TOGETHER_MAX: Final = 130
SOURCES: Final = f"{ROOT / 'src'}:{ROOT}"
PYTHON: Final = (sys.executable, "-m", "tests.compat.python.run")

# How many cases may be tried again.
SECOND_TRIES_MAX: Final = 3
SECOND_TRIES: Final = pytest.StashKey[list[str]]()

# How each client is started, and where Python finds it; the newest is in the environment itself.
COMMANDS: Final = {
    "python-7.15.0": (PYTHON, SOURCES),
    "python-7.14.3": (PYTHON, f"{ROOT / '.cache/azure-servicebus-7.14.3'}:{SOURCES}"),
    "javascript-7.9.5": (("node", str(ROOT / "tests/compat/js/run.js")), SOURCES),
    "proton-0.40.0": ((str(PROTON_PYTHON), str(ROOT / "tests/compat/proton/run.py")), ""),
}


@pytest.fixture(autouse=True, scope="session")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ClientRun]]:
    """The run of every case that a selected test asks for, all at work at the same time."""
    wanted: dict[tuple[str, bool], list[Case]] = {}
    for item in request.session.items:
        # A test without parameters has no callspec at all.
        callspec = getattr(item, "callspec", None)
        case = callspec.params.get("case") if callspec is not None else None
        if isinstance(case, Case) and shutil.which(COMMANDS[case.client][0][0]):
            wanted.setdefault((case.client, case.is_shared), []).append(case)
    parts = [
        cases[at : at + CASES_TOGETHER_MAX]
        for cases in wanted.values()
        for at in range(0, len(cases), CASES_TOGETHER_MAX)
    ]
    folders = [tmp_path_factory.mktemp(cases[0].client) for cases in parts]
    authority = AuthorityFolder(tmp_path_factory.mktemp("authority"))
    make_certificate(authority, ["localhost"], days=1, now=datetime.now(UTC))
    with ExitStack() as stack, ThreadPoolExecutor() as beside:
        start = partial(_start_broker, authority=authority, stack=stack)
        brokers = beside.map(start, parts, folders)
        started = [
            _start_client(cases, broker, authority.authority, stack)
            for cases, broker in zip(parts, brokers, strict=True)
        ]
        yield {str(case): run for cases, run in zip(parts, started, strict=True) for case in cases}


@pytest.fixture(scope="session")
def second_try(
    request: pytest.FixtureRequest,
    runs: dict[str, ClientRun],
    tmp_path_factory: pytest.TempPathFactory,
) -> SecondTry:
    """Try a case again, alone."""
    told = request.config.stash.setdefault(SECOND_TRIES, [])

    def try_again(case: Case, error: str) -> str | None:
        if len(told) == SECOND_TRIES_MAX:
            return error
        for run in runs.values():
            run.await_end()
        told.append(f"{case}\n{error}")
        folder = tmp_path_factory.mktemp(case.client)
        authority = AuthorityFolder(tmp_path_factory.mktemp("authority"))
        make_certificate(authority, ["localhost"], days=1, now=datetime.now(UTC))
        with ExitStack() as stack:
            broker = _start_broker([case], folder, authority=authority, stack=stack)
            return _start_client([case], broker, authority.authority, stack).error_of(case)

    return try_again


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what failed beside others, whatever came of it alone."""
    for text in config.stash.get(SECOND_TRIES, []):
        terminalreporter.section("failed beside others, and was tried again alone")
        terminalreporter.write_line(text)


def _start_broker(
    cases: list[Case], folder: Path, *, authority: AuthorityFolder, stack: ExitStack
) -> BrokerProcess:
    config = write_namespace(folder / "namespace.json", cases)
    tls = TlsFiles(authority.server, authority.server_key)
    started = many_front_ends if cases[0].is_shared else broker_process
    broker = stack.enter_context(started(config, folder=folder, tls=tls))
    stack.callback(_assert_no_defect, broker)
    return broker


def _start_client(
    cases: list[Case], broker: BrokerProcess, authority: Path, stack: ExitStack
) -> ClientRun:
    command, python_path = COMMANDS[cases[0].client]
    run = ClientRun(
        command,
        cases,
        environment={
            "PYTHONPATH": python_path,
            "BENDYBUS_COMPAT_PYTHON": sys.executable,
            # Some scenarios have brokers of their own.
            "TMPDIR": tempfile.gettempdir(),
            # Node.js reads it once, at its start.
            "NODE_EXTRA_CA_CERTS": str(authority),
            # The administration client of Python 7.14 can be told in no other way.
            "REQUESTS_CA_BUNDLE": str(authority),
            "SSL_CERT_FILE": str(authority),
        },
        connection_string=broker.connection_string(),
        management_url=broker.management_url,
        encrypted={
            "amqpsPort": broker.amqps_port,
            "httpsPort": broker.https_port,
            "authority": str(authority),
        },
        log=broker.folder / "client.log",
    )
    stack.callback(run.close)
    return run


def _assert_no_defect(broker: BrokerProcess) -> None:
    """Clients forgive much by trying again; what the broker itself calls a defect still fails."""
    assert "Traceback" not in broker.log, broker.log
