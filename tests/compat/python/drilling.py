"""A messaging store is taken away while traffic runs, and brought back.

These scenarios have a broker to themselves with one queue, so fragment n is in store n.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from zlib import crc32

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusServerBusyError

from tests.compat.cases import CONVENTIONAL, PARTITIONED
from tests.compat.python.scenario import (
    WAIT_SECONDS_MAX,
    Bus,
    bodies,
    body_of,
    gets_nothing,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
)

FRAGMENTS = 16
LOST = 5


@pytest.mark.spec("R1.2", "R2.5", "R3.1")
@scenario(kinds=[PARTITIONED], has_own_broker=True)
def a_partitioned_queue_goes_on_without_one_of_its_stores(bus: Bus) -> None:
    bus.send(*numbered(FRAGMENTS))
    with bus.receiver() as receiver, bus.sender(retry_total=0) as sender:
        with _without_store(bus, LOST):
            for number in range(FRAGMENTS):
                sender.send_messages(ServiceBusMessage(b"keyless %d" % number))
            with pytest.raises(ServiceBusServerBusyError, match=f"store {LOST}"):
                sender.send_messages(ServiceBusMessage(b"lost", partition_key=_key_of(LOST)))
            sender.send_messages(ServiceBusMessage(b"keyed", partition_key=_key_of(LOST + 1)))
            reachable = receive_all(receiver, 2 * FRAGMENTS)
            assert gets_nothing(receiver)
            assert LOST not in {_fragment(message) for message in reachable}
        sender.send_messages(ServiceBusMessage(b"back", partition_key=_key_of(LOST)))
        returned = receive_all(receiver, 2)
        assert {_fragment(message) for message in returned} == {LOST}
        assert is_empty(receiver)
    expected = numbered_bodies(FRAGMENTS) + [b"keyless %d" % each for each in range(FRAGMENTS)]
    assert sorted(bodies(reachable + returned)) == sorted([*expected, b"keyed", b"back"])


@pytest.mark.spec("R2.5")
@scenario(kinds=[PARTITIONED], has_own_broker=True)
def a_client_that_retries_gets_through_when_the_store_is_back(bus: Bus) -> None:
    def send() -> None:
        with bus.sender(retry_total=40, retry_backoff_factor=0.5, retry_mode="fixed") as sender:
            sender.send_messages(ServiceBusMessage(b"patient", partition_key=_key_of(LOST)))

    with bus.receiver() as receiver, ThreadPoolExecutor() as beside:
        with _without_store(bus, LOST):
            sending = beside.submit(send)
            assert gets_nothing(receiver, 3)
            assert not sending.done()
        [message] = receive_all(receiver, 1)
        assert body_of(message) == b"patient"
        sending.result(WAIT_SECONDS_MAX)


@pytest.mark.spec("R1.2", "R2.4", "R2.5")
@scenario(kinds=[PARTITIONED], has_own_broker=True, LockDuration="PT5S")
def traffic_without_keys_loses_and_doubles_nothing_through_a_drill(bus: Bus) -> None:
    sent: list[bytes] = []
    enough = threading.Event()
    is_moving = threading.Event()

    def send() -> None:
        with bus.sender(retry_total=0) as sender:
            for number in count():
                sender.send_messages(ServiceBusMessage(b"%d" % number))
                sent.append(b"%d" % number)
                is_moving.set()
                if enough.is_set():
                    return

    received: list[bytes] = []
    # Receiving is final here: what a store cannot remove while it is away must come again.
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with (
        bus.receiver(receive_mode=mode, prefetch_count=50) as receiver,
        ThreadPoolExecutor() as beside,
    ):
        sending = beside.submit(send)
        for store in (LOST, LOST + 1):
            with _without_store(bus, store):
                is_moving.clear()
                assert is_moving.wait(WAIT_SECONDS_MAX), "sending stopped"
                received += bodies(receive(receiver, 20))
        enough.set()
        sending.result(WAIT_SECONDS_MAX)
        received += bodies(receive(receiver, len(sent) - len(received)))
        assert is_empty(receiver)
    assert sorted(received) == sorted(sent)


@scenario(has_own_broker=True)
def what_was_locked_when_its_store_went_can_be_settled_when_it_is_back(bus: Bus) -> None:
    store = 0
    bus.send(*numbered(2, partition_key=_key_of(store)))
    with bus.receiver() as receiver:
        held = receive(receiver, 2)
        with _without_store(bus, store):
            assert gets_nothing(receiver, 0.5)
        receiver.renew_message_lock(held[0])
        receiver.complete_message(held[0])
        receiver.abandon_message(held[1])
        [again] = receive_all(receiver, 1)
        assert body_of(again) == body_of(held[1])
        assert is_empty(receiver)


@pytest.mark.spec("R2.5")
@scenario(kinds=[CONVENTIONAL], has_own_broker=True)
def a_conventional_queue_waits_for_its_store(bus: Bus) -> None:
    bus.send(*numbered(1))
    with bus.receiver() as receiver, bus.sender(retry_total=0) as sender:
        with _without_store(bus, 0):
            with pytest.raises(ServiceBusServerBusyError, match="store 0"):
                sender.send_messages(ServiceBusMessage(b"lost"))
            assert gets_nothing(receiver)
        sender.send_messages(ServiceBusMessage(b"message 1"))
        assert bodies(receive_all(receiver, 2)) == numbered_bodies(2)


@contextmanager
def _without_store(bus: Bus, number: int) -> Iterator[None]:
    """Take a store away while the block runs, by the command that users have for it."""
    _drill(bus, "offline", number)
    yield
    _drill(bus, "online", number)


def _drill(bus: Bus, verb: str, number: int) -> None:
    options = ["--management-url", f"http://localhost:{bus.own_broker.http_port}"]
    command = [sys.executable, "-m", "bendybus", "store", verb, str(number), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_SECONDS_MAX)


def _key_of(fragment: int) -> str:
    """A key that belongs to the fragment."""
    return next(key for key in map(str, count()) if crc32(key.encode()) % FRAGMENTS == fragment)


def _fragment(message: ServiceBusReceivedMessage) -> int:
    assert message.sequence_number is not None
    return message.sequence_number >> 48
