"""`bendybus store` against the HTTP side of a broker."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from bendybus.doors.door import Door
from bendybus.http.app import create_app
from bendybus.http.serving import serve_http
from bendybus.model.access import make_sas
from tests.cli.command import run
from tests.http.store_shelf import StoreShelf, authentication, front


@pytest.fixture
def url() -> Iterator[str]:
    """Serve three stores from a thread with a loop of its own, since commands block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    app = create_app(
        namespace="ns",
        authentication=authentication(datetime.now(UTC)),
        drills=StoreShelf(3),
        is_started=lambda: True,
        now=lambda: datetime.now(UTC),
    )
    start = serve_http(front(app), [Door("http", "127.0.0.1", 0)])
    server = asyncio.run_coroutine_threadsafe(start, loop).result(timeout=10)
    yield f"http://127.0.0.1:{server.port}"
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(timeout=10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    loop.close()


def connection(rule: str = "Root", key: str = "root-key") -> str:
    return f"Endpoint=sb://localhost;SharedAccessKeyName={rule};SharedAccessKey={key}"


def store(*arguments: str, url: str, text: str | None = None) -> tuple[int, str, str]:
    result = run(
        "store",
        *arguments,
        BENDYBUS_MANAGEMENT_URL=url,
        BENDYBUS_CONNECTION_STRING=connection() if text is None else text,
    )
    return result.returncode, result.stdout, result.stderr


def test_stores_are_listed_as_a_table(url: str) -> None:
    code, output, _ = store("list", url=url)
    assert code == 0
    assert "data/store-02.db" in output
    assert output.count("online") == 3


def test_stores_are_listed_as_json_for_programs(url: str) -> None:
    _, output, _ = store("list", "--output", "json", url=url)
    stores = json.loads(output)
    assert [each["number"] for each in stores] == [0, 1, 2]
    assert stores[2]["bytes"] == 12288


def test_one_store_is_shown(url: str) -> None:
    _, output, _ = store("show", "2", "--output", "json", url=url)
    shown = json.loads(output)
    assert (shown["number"], shown["state"], shown["bytes"]) == (2, "online", 12288)
    _, output, _ = store("show", "2", url=url)
    assert "data/store-02.db" in output
    assert "data/store-01.db" not in output
    code, _, errors = store("show", "3", url=url)
    assert (code, errors) == (1, "bendybus: there is no store 3; they are 0 to 2\n")


def test_a_store_is_taken_away_and_brought_back(url: str) -> None:
    code, output, _ = store("offline", "1", "--output", "json", url=url)
    assert code == 0
    [shown] = json.loads(output)
    assert (shown["number"], shown["state"], shown["reason"]) == (1, "offline", "taken offline")
    _, output, _ = store("online", "1", url=url)
    assert "online" in output
    assert "offline" not in output


def test_a_store_that_does_not_exist_is_told_with_those_that_do(url: str) -> None:
    code, output, errors = store("offline", "7", url=url)
    assert (code, output) == (1, "")
    assert errors == "bendybus: There is no store 7; they are 0 to 2.\n"


def test_a_negative_number_is_wrong_usage(url: str) -> None:
    assert store("offline", "--", "-1", url=url)[0] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (connection(key="guess"), "InvalidSignature"),
        (connection("Sender", "send-key"), "'Manage' claim(s) are required"),
    ],
)
def test_a_key_that_does_not_open_is_told(url: str, text: str, reason: str) -> None:
    code, _, errors = store("list", url=url, text=text)
    assert code == 1
    assert reason in errors
    assert "--connection-string" in errors
    assert len(errors.splitlines()) == 1


def test_a_ready_token_opens_as_a_key_does(url: str) -> None:
    token = make_sas(f"{url}/", "Root", "root-key", datetime.now(UTC) + timedelta(minutes=5))
    text = f"Endpoint=sb://localhost;SharedAccessSignature={token}"
    assert store("list", url=url, text=text)[0] == 0


def test_a_server_that_is_no_broker_is_told(url: str) -> None:
    code, _, errors = store("list", url=f"{url}/elsewhere")
    assert code == 1
    assert errors == "bendybus: No service is hosted at the specified address.\n"
