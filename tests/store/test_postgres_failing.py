"""What callers of a PostgreSQL store are told when its server, or the way to it, fails.

Nothing that was accepted is lost, nothing that was refused is there, and of what nobody knows it is
said that nobody knows.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from psycopg import sql

from bendybus.model.errors import MessagingInternal, StoreFailed, StoreUnavailable
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.bounded import Unanswered
from bendybus.store.postgres.connecting import ANSWER_SECONDS, connect
from bendybus.store.postgres.locks import TAKE_TURN
from bendybus.store.postgres.store import CONNECTIONS_PER_STORE, Pacing, PostgresStore
from bendybus.store.postgres.vacuuming import SETTINGS, TABLE_SECONDS_MAX, Vacuum
from bendybus.testing.cut_network import CutNetwork, cut_network
from bendybus.testing.postgres import PostgresServer, postgres_server, url_of
from bendybus.testing.store_contract.scanning import EVERYTHING
from bendybus.testing.store_contract.subject import ORDERS, contents_of, send
from tests.store.test_vacuuming import wait_until

HASTY = Pacing(retry_seconds=0.02, beat_seconds=0.05, turn_seconds=0.3, answer_seconds=0.8)
PATIENCE_SECONDS = 20

pytestmark = pytest.mark.spec("R1.2")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that these tests may do anything to, if it runs again in the end."""
    with postgres_server() as started:
        yield started


@pytest.fixture
def network(server: PostgresServer) -> Iterator[CutNetwork]:
    """The way to it."""
    with cut_network(server.port) as way:
        yield way


@pytest.fixture
def name(server: PostgresServer) -> Iterator[str]:
    """An empty database of it."""
    with server.lent_database() as url:
        yield url.rpartition("/")[2]


@pytest.fixture
async def store(name: str, network: CutNetwork) -> AsyncIterator[PostgresStore]:
    """A store in that database."""
    identity = StoreIdentity("cluster", 0, 1, ("ours",), may_claim=True)
    store = PostgresStore(0, url_of([network.port], name), identity=identity, pacing=HASTY)
    await store.start()
    await store.put_entities([ORDERS])
    yield store
    network.restore()
    await store.close()


async def back(store: PostgresStore) -> None:
    """Wait until a store has come back by itself."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not store.is_online:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def in_commit(server: PostgresServer) -> int:
    """Wait until a session waits for its commit to be safe, and return its process."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = server.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            if found:
                return int(found[0][0])
            await asyncio.sleep(0.01)


async def commit_again_and_again(server: PostgresServer) -> None:
    """Commit something of no consequence until cancelled."""
    while True:
        await asyncio.to_thread(server.execute, "SELECT pg_logical_emit_message(true, '', '')")


@pytest.fixture
async def commits_wait(store: PostgresStore, server: PostgresServer) -> AsyncIterator[None]:
    """Commits wait for a standby that does not come, now that the store is open."""
    assert store.is_online
    server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.execute("SELECT pg_reload_conf()")
    # The server has heard of it when a commit does wait.
    trying = asyncio.create_task(commit_again_and_again(server))
    waiting = await in_commit(server)
    trying.cancel()
    server.execute(sql.SQL("SELECT pg_cancel_backend({})").format(waiting))
    await asyncio.wait([trying])
    yield
    server.execute("ALTER SYSTEM RESET synchronous_standby_names")
    server.execute("SELECT pg_reload_conf()")


async def test_who_was_never_given_a_turn_has_written_nothing(
    store: PostgresStore, network: CutNetwork
) -> None:
    await send(store, b"before")
    network.silence_answers()
    with pytest.raises(StoreUnavailable):
        await send(store, b"never")
    network.restore()
    await back(store)
    assert await contents_of(store) == [b"before"]


@pytest.mark.usefixtures("commits_wait")
async def test_of_a_commit_whose_answer_is_lost_nobody_knows(
    store: PostgresStore, server: PostgresServer, network: CutNetwork
) -> None:
    sending = asyncio.ensure_future(send(store, b"where?"))
    await in_commit(server)
    network.cut()
    with pytest.raises(StoreFailed):
        await sending


@pytest.mark.usefixtures("commits_wait")
async def test_of_a_commit_that_takes_too_long_nobody_knows(store: PostgresStore) -> None:
    with pytest.raises(StoreFailed):
        await send(store, b"where?")


@pytest.mark.usefixtures("commits_wait")
async def test_a_commit_that_was_not_waited_for_is_not_called_safe(
    store: PostgresStore, server: PostgresServer
) -> None:
    sending = asyncio.ensure_future(send(store, b"where?"))
    server.execute(sql.SQL("SELECT pg_cancel_backend({})").format(await in_commit(server)))
    with pytest.raises(StoreFailed):
        await sending


async def test_who_waits_for_a_server_that_is_paused_is_told_so_and_it_comes_back(
    store: PostgresStore, server: PostgresServer
) -> None:
    await send(store, b"before")
    server.pause()
    try:
        with pytest.raises(StoreUnavailable):
            await send(store, b"never")
    finally:
        server.resume()
    await back(store)
    await send(store, b"after")
    assert await contents_of(store) == [b"before", b"after"]


async def test_what_was_accepted_is_there_when_the_server_was_killed(
    store: PostgresStore, server: PostgresServer
) -> None:
    accepted: list[bytes] = []

    async def send_on() -> None:
        for number in range(10_000):
            content = b"%d" % number
            await send(store, content)
            accepted.append(content)

    sending = asyncio.create_task(send_on())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(accepted) < 20:  # noqa: ASYNC110 - it counts
            await asyncio.sleep(0.001)
    server.kill()
    with pytest.raises((StoreFailed, StoreUnavailable)):
        await sending
    server.start()
    await back(store)
    found = await contents_of(store)
    # The last, of which nobody knew, may be there.
    assert found[: len(accepted)] == accepted
    assert len(found) <= len(accepted) + 1


async def test_a_front_end_that_is_stuck_in_its_turn_loses_it(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    stuck = connect(server.url(name), settings={"idle_in_transaction_session_timeout": "100ms"})
    try:
        stuck.execute("BEGIN")
        stuck.execute(TAKE_TURN)
        await send(store, b"after it")
        assert await contents_of(store) == [b"after it"]
    finally:
        stuck.close()


async def test_a_store_has_no_more_sessions_than_were_counted_before_the_start(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    def purposes() -> set[str]:
        sessions = "SELECT application_name FROM pg_stat_activity"
        listed = server.execute(f"{sessions} WHERE datname = '{name}'")
        # All have names, and no two have the same.
        assert len({purpose for (purpose,) in listed}) == len(listed)
        return {str(purpose).removeprefix("bendybus store 0 ") for (purpose,) in listed}

    for number in range(20):
        await send(store, b"%d" % number)
        await store.scan(EVERYTHING)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "vacuum" not in purposes():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    assert purposes() == {"lane", "attendant", "scan", "vacuum"}
    assert len(purposes()) == CONNECTIONS_PER_STORE


def test_no_session_may_hold_anything_for_long(server: PostgresServer, name: str) -> None:
    bounds = ("statement_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout")
    with connect(server.url(name)) as connection:
        for bound in bounds:
            [(value,)] = connection.execute(
                "SELECT setting::bigint FROM pg_settings WHERE name = %s", (bound,)
            ).fetchall()
            assert 0 < value <= 6000, bound


def test_who_asks_a_paused_server_is_told_so(server: PostgresServer, name: str) -> None:
    with connect(server.url(name), patience=0.2) as connection:
        server.pause()
        try:
            with pytest.raises(Unanswered):
                connection.execute("SELECT 1")
        finally:
            server.resume()


def test_who_vacuums_a_paused_server_ends_at_once(server: PostgresServer, name: str) -> None:
    is_asked, may_look = threading.Event(), threading.Event()

    def is_due() -> bool:
        is_asked.set()
        return may_look.wait(PATIENCE_SECONDS)

    url = server.url(name)
    vacuum = Vacuum(lambda: connect(url, settings=SETTINGS), is_due, pause_seconds=0.01)
    vacuum.start()
    may_look.set()
    wait_until(lambda: vacuum._connection is not None)
    may_look.clear()
    is_asked.clear()
    assert is_asked.wait(PATIENCE_SECONDS)
    server.pause()
    try:
        may_look.set()
        begun = time.monotonic()
        vacuum.close()
        assert time.monotonic() - begun < ANSWER_SECONDS / 2
    finally:
        server.resume()


def test_no_table_is_vacuumed_for_ever(server: PostgresServer, name: str) -> None:
    with connect(server.url(name), settings=SETTINGS) as connection:
        for bound in SETTINGS:
            [(value,)] = connection.execute(
                "SELECT setting::bigint FROM pg_settings WHERE name = %s", (bound,)
            ).fetchall()
            assert 0 < value <= TABLE_SECONDS_MAX * 1000, bound


async def test_a_turn_that_does_not_come_is_no_failure_of_the_store(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    openings = store.openings
    with connect(server.url(name)) as other, other.transaction():
        other.execute(TAKE_TURN)
        with pytest.raises(StoreUnavailable, match="others keep it busy"):
            await send(store, b"never")
    await send(store, b"then")
    assert await contents_of(store) == [b"then"]
    assert store.openings == openings


# Refuses a content in the way that a statement would be refused, how often is counted.
REFUSE = """
CREATE SEQUENCE bendybus.refusals;
CREATE FUNCTION bendybus.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('bendybus.refusals') <= {times} THEN
        RAISE EXCEPTION 'no' USING ERRCODE = {state};
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON bendybus.body FOR EACH ROW
    WHEN (substring(NEW.content FROM 1 FOR 6) = 'poison'::bytea)
    EXECUTE FUNCTION bendybus.refuse()"""
POISON = b"poison"


def refuse(server: PostgresServer, name: str, *, state: str, times: int) -> None:
    """Have the database refuse a content so many times, for a reason."""
    with connect(server.url(name)) as connection:
        connection.execute(sql.SQL(REFUSE).format(state=state, times=times))


async def test_who_came_in_others_way_is_tried_again_and_all_who_commit_with_it(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    refuse(server, name, state="40001", times=2)
    sent = [b"one", POISON, b"two"]
    await asyncio.gather(*(send(store, content) for content in sent))
    assert sorted(await contents_of(store)) == sorted(sent)


async def test_who_comes_in_others_way_for_ever_is_told_so_and_has_written_nothing(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    refuse(server, name, state="40P01", times=1000)
    openings = store.openings
    with pytest.raises(StoreUnavailable, match="others keep it busy"):
        await send(store, POISON)
    assert await contents_of(store) == []
    assert store.openings == openings


async def test_what_the_database_refuses_of_a_single_caller_is_no_failure_of_the_store(
    store: PostgresStore, server: PostgresServer, name: str
) -> None:
    refuse(server, name, state="22000", times=1)
    openings = store.openings
    with pytest.raises(MessagingInternal):
        await send(store, POISON)
    assert await contents_of(store) == []
    await send(store, POISON)
    assert await contents_of(store) == [POISON]
    assert store.openings == openings


@pytest.mark.parametrize("state", ["22000", "23505"])
async def test_what_the_database_refuses_of_one_caller_harms_no_other(
    store: PostgresStore, server: PostgresServer, name: str, state: str
) -> None:
    refuse(server, name, state=state, times=1000)
    openings = store.openings
    contents = [b"%d" % number for number in range(40)]
    contents[7] = POISON
    outcomes = await asyncio.gather(
        *(send(store, content) for content in contents), return_exceptions=True
    )
    assert [at for at, each in enumerate(outcomes) if isinstance(each, MessagingInternal)] == [7]
    assert sorted(await contents_of(store)) == sorted({*contents} - {POISON})
    assert store.openings == openings
