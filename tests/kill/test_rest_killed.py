"""What was answered 201 over HTTP is there after a kill, and what was answered 200 is not."""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.http.rest_client import live_token

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
CALLERS: Final = 8
LIVES: Final = 3
# How many sends are acknowledged, at least, before each kill.
SENDS_PER_LIFE: Final = 150
WAIT_SECONDS: Final = 60


class Caller(threading.Thread):
    """Sends numbered messages one after the other until the broker is gone."""

    def __init__(self, port: int, queue: str, name: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[bytes] = []
        self.asked: list[bytes] = []
        self._port, self._queue, self._who = port, queue, name

    def run(self) -> None:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=WAIT_SECONDS)) as connection:
            self._send_on(connection)

    def _send_on(self, connection: HTTPConnection) -> None:
        headers = {"Authorization": live_token()}
        while True:
            body = f"{self._who}-{len(self.asked)}".encode()
            self.asked.append(body)
            try:
                connection.request("POST", f"/{self._queue}/messages", body, headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):
                return
            assert answer.status == 201
            self.acknowledged.append(body)


def receive_all(port: int, queue: str) -> list[bytes]:
    """Receive for good until nothing is left."""
    received: list[bytes] = []
    with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
        while True:
            path = f"/{queue}/messages/head?timeout=0"
            connection.request("DELETE", path, headers={"Authorization": live_token()})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 204:
                return received
            assert answer.status == 200
            received.append(body)


@pytest.mark.parametrize("queue", ["conventional", "partitioned"])
@pytest.mark.parametrize(
    "stores", ["files", pytest.param("databases", marks=pytest.mark.prove)], indirect=True
)
def test_acknowledged_sends_survive_and_deleted_messages_stay_deleted(
    queue: str, stores: Sequence[str]
) -> None:
    with broker_process(CONFIG, stores=stores) as broker:
        acknowledged: list[bytes] = []
        asked: set[bytes] = set()
        for life in range(LIVES):
            callers = live(broker, queue, life)
            acknowledged += [body for each in callers for body in each.acknowledged]
            asked |= {body for each in callers for body in each.asked}
            broker.start()
        received = receive_all(broker.http_port, queue)
        assert len(received) == len(set(received))
        assert set(acknowledged) <= set(received) <= asked
        broker.kill()
        broker.start()
        assert receive_all(broker.http_port, queue) == []


def live(broker: BrokerProcess, queue: str, life: int) -> list[Caller]:
    """Load the broker until enough is acknowledged, and kill it."""
    callers = [Caller(broker.http_port, queue, f"{life}-{number}") for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(len(each.acknowledged) for each in callers) < SENDS_PER_LIFE:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    broker.kill()
    for caller in callers:
        caller.join(WAIT_SECONDS)
    return callers
