"""`bendybus serve --store URL`: stores that a server keeps, from the first line to the last."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bendybus.testing.postgres import PASSWORD, PostgresServer
from tests.cli.command import SOURCE, run, run_afresh, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "namespace.yaml"

pytestmark = pytest.mark.spec("R1.2")


@pytest.fixture
def urls(shared_postgres: PostgresServer) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(shared_postgres.lent_database()) for _ in range(2)]


def without_password(url: str) -> str:
    return url.replace(f":{PASSWORD}", "")


def test_stores_at_a_server_are_shown_without_their_password(
    tmp_path: Path, urls: list[str]
) -> None:
    options = [word for each in urls for word in ("--store", each)]
    with serving(tmp_path, "--config", EXAMPLE, *options) as broker:
        text = broker.announcement
        assert f"  store  1: {without_password(urls[1])}\n" in text
        url = f"http://127.0.0.1:{broker.ready['http_port']}"
        listed = run("store", "list", "--output", "json", "--management-url", url)
        paths = [store["path"] for store in json.loads(listed.stdout)]
        assert paths == [without_password(each) for each in urls]
        told = [text, listed.stdout]
        [known] = re.findall(r"Connection string:\n +(.*)\n", text)
        for command in ("status", "doctor"):
            result = run(command, "--management-url", url, "--connection-string", known)
            assert result.returncode == 0, result.stdout + result.stderr
            told += [result.stdout, result.stderr]
        code, errors = broker.end(signal.SIGTERM)
        assert (code, errors) == (0, "Stopping; once more ends it at once.\n")
    assert PASSWORD not in "".join([*told, errors])
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("postgresql://", "mysql://", "--store 1 must be the URL of a PostgreSQL database"),
        (f":{PASSWORD}@", f":{PASSWORD}x@", "check user and password in the URL"),
    ],
)
def test_a_wrong_url_is_refused_in_one_line(
    urls: list[str], right: str, wrong: str, said: str
) -> None:
    result = run(
        "serve",
        "--amqp-port",
        "0",
        "--http-port",
        "0",
        "--flight-port",
        "none",
        "--store",
        urls[0].replace(right, wrong),
    )  # fmt: skip - one option per pair reads better
    assert (result.returncode, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert said in line
    assert PASSWORD not in line


def test_without_the_driver_it_says_what_to_install(tmp_path: Path) -> None:
    package = tmp_path / "psycopg"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError\n")
    result = run_afresh(
        "serve",
        "--amqp-port",
        "0",
        "--http-port",
        "0",
        "--flight-port",
        "none",
        "--store",
        f"postgresql://bus:{PASSWORD}@db/orders",
        PYTHONPATH=f"{tmp_path}:{SOURCE}",
    )  # fmt: skip - one option per pair reads better
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "bendybus: postgresql://bus@db/orders needs the driver for PostgreSQL: pip install"
        " 'bendybus[postgres]'\n"
    )
