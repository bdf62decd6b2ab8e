"""The connection of scans: beside the lane, and never in its way."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append, Move
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sql import scanner as scanner_module
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.scanning import EVERYTHING, contents_scanned, everything
from bendybus.testing.store_contract.subject import (
    DEAD,
    MAIN,
    NOON,
    ORDERS,
    ROOMY,
    after,
    lock,
    send,
)
from tests.store.makers import POSTGRESQL, SQLITE, place_of

PATIENCE_SECONDS = 10.0
# With a character that PostgreSQL has no text for.
ODD = "k\x00y\uffff0"

ScannedStore = PostgresStore | SqliteStore


@pytest.fixture(params=[SQLITE, POSTGRESQL])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ScannedStore]:
    store = place_of(request.param, request).opened()
    await store.start()
    await store.put_entities([ORDERS])
    yield store
    await store.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        await asyncio.sleep(0.001)


async def test_what_is_intact_is_never_asked_of_the_lane(
    store: ScannedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    varied = [
        Message(b"plain"),
        Message(b"short-lived", expires_at=after(60)),
        Message(b"of a session", session_id="it's one", partition_key="it's one"),
        Message(b"with a key", partition_key='k\u00e9\\"y\u2028'),
        Message(b"later", scheduled_at=after(600)),
    ]
    await store.apply([Append(MAIN, varied, ROOMY)], now=NOON)
    for held in await lock(store, 2):
        move = Move(MAIN, DEAD, held.lock, Marks("why"), is_counted=True)
        await store.apply([move], now=NOON)
    monkeypatch.setattr(store._lane, "submit", None)
    assert len(await everything(store)) == 3
    assert len(await everything(store, replace(EVERYTHING, queue=DEAD))) == 2


async def test_texts_with_any_character_are_scanned_and_chosen(store: ScannedStore) -> None:
    odd = [Message(b"a", partition_key=ODD), Message(b"b", session_id=ODD, partition_key=ODD)]
    await store.apply([Append(MAIN, [*odd, Message(b"c", partition_key="k")], ROOMY)], now=NOON)
    assert [(key, content) for *_, key, _, content in await everything(store)] == [
        (ODD, b"a"),
        (ODD, b"b"),
        ("k", b"c"),
    ]
    chosen = replace(EVERYTHING, partition_keys=(ODD,))
    assert [content for *_, content in await everything(store, chosen)] == [b"a", b"b"]


async def test_commits_go_on_while_a_scan_is_under_way(store: ScannedStore) -> None:
    await send(store, *[b"x" * 1000] * 5000)
    scan = store.scan(replace(EVERYTHING, count_max=5000))
    await send(store, b"y")
    assert len(await lock(store, 2)) == 2
    assert (await scan).count in (5000, 5001)


async def test_the_connection_and_the_thread_rest_when_nobody_scans(
    store: ScannedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner_module, "IDLE_SECONDS", 0.001)
    await send(store, b"a")
    assert await contents_scanned(store) == [b"a"]
    await until(lambda: store._scanner._thread is None and store._scanner._connection is None)
    await send(store, b"b")
    assert await contents_scanned(store) == [b"a", b"b"]


async def test_scans_under_way_are_broken_off_when_the_store_goes_offline(
    store: ScannedStore,
) -> None:
    await send(store, *[b"x" * 1000] * 2000)
    scans = [store.scan(EVERYTHING) for _ in range(20)]
    await store.scan(EVERYTHING)
    await store.take_offline("a drill")
    outcomes = await asyncio.gather(*scans, return_exceptions=True)
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException) or isinstance(outcome, StoreUnavailable)
    assert store._scanner._connection is None
    await store.bring_online()
    assert len(await contents_scanned(store)) == 2000
