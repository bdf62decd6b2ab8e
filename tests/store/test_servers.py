"""Databases are looked at before a store is opened: what is wrong is said, and nothing written."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from bendybus.assemble.servers import identify
from bendybus.assemble.stores import open_stores, places_of, store_at
from bendybus.model.errors import SettingInvalid, StartRefused, StoreMismatch, StoreRefused
from bendybus.model.namespace import Namespace
from bendybus.settings import Choices, Settings, settle
from bendybus.settings.choices import places_from
from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.store import CONNECTIONS_PER_STORE
from bendybus.store.sqlite.data_folder import cluster_of, url_file
from bendybus.testing.free_port import free_port
from bendybus.testing.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.spec("R1.2")


@pytest.fixture
def urls(shared_postgres: PostgresServer) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(shared_postgres.lent_database()) for _ in range(3)]


def served(urls: Sequence[str], namespace: str = "shop") -> Settings:
    return settle([Choices(places=places_from(urls, "--store"))], Namespace(namespace))


async def start(settings: Settings) -> None:
    """Open the stores as a broker does, and close them."""
    async with open_stores(settings) as stores:
        assert all(store.is_online for store in stores)


async def refusal(settings: Settings, kind: type[StartRefused]) -> str:
    """Return what a start is refused with; no password is in it."""
    with pytest.raises(kind) as refused:
        await start(settings)
    assert type(refused.value) is kind
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


def is_untouched(url: str) -> bool:
    """Whether nothing was written to a database."""
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT to_regnamespace('bendybus')").fetchone() == (None,)


async def test_stores_are_found_again_as_they_were(urls: list[str]) -> None:
    await start(served(urls))
    await start(served(urls))


async def test_a_cluster_grows_by_a_database(urls: list[str]) -> None:
    await start(served(urls[:2]))
    await start(served(urls))


async def test_fewer_stores_than_before_are_refused(urls: list[str]) -> None:
    await start(served(urls))
    said = await refusal(served(urls[:1]), StoreMismatch)
    assert "there were 3 stores, and 1 are listed: the messages in stores 1 to 2" in said


async def test_stores_in_another_order_are_refused(urls: list[str]) -> None:
    await start(served(urls))
    said = await refusal(served([urls[1], urls[0], urls[2]]), StoreMismatch)
    assert "is store 1, but is listed as store 0" in said


async def test_an_empty_database_in_place_of_a_used_one_is_refused(urls: list[str]) -> None:
    await start(served(urls[:2]))
    said = await refusal(served([urls[0], urls[2]]), StoreMismatch)
    assert "is empty, but store 1 was used before" in said
    assert is_untouched(urls[2])


async def test_a_database_of_another_broker_is_refused(urls: list[str]) -> None:
    await start(served(urls[:1]))
    await start(served(urls[1:2], "depot"))
    said = await refusal(served([urls[0], urls[2], urls[1]]), StoreMismatch)
    assert "belongs to another broker, of the namespaces depot" in said
    assert is_untouched(urls[2])


async def test_another_namespace_in_the_same_databases_is_refused(urls: list[str]) -> None:
    await start(served(urls[:1]))
    said = await refusal(served(urls[:1], "depot"), StoreMismatch)
    assert "hold the namespaces shop" in said


async def test_a_database_with_two_names_is_refused(urls: list[str]) -> None:
    twice = [urls[0], urls[0].replace("127.0.0.1", "localhost")]
    said = await refusal(served(twice), StoreMismatch)
    assert "stores 0 and 1 are the same database" in said
    assert is_untouched(urls[0])


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (f":{PASSWORD}@", f":{PASSWORD}x@", "check user and password in the URL"),
        ("//bendybus:", "//nobody-here:", "check user and password in the URL"),
    ],
)
async def test_who_may_not_log_in_is_refused(
    urls: list[str], right: str, wrong: str, said: str
) -> None:
    assert said in await refusal(served([urls[0], urls[1].replace(right, wrong)]), StoreRefused)
    assert is_untouched(urls[0])


async def test_a_database_that_is_not_there_is_refused(urls: list[str]) -> None:
    said = await refusal(served([f"{urls[0].rpartition('/')[0]}/not-there"]), StoreRefused)
    assert "create the database" in said


async def test_a_role_without_rights_is_refused(
    urls: list[str], shared_postgres: PostgresServer
) -> None:
    name = urls[0].rpartition("/")[2]
    shared_postgres.execute(
        sql.SQL(
            "ALTER DATABASE {} OWNER TO postgres; REVOKE ALL ON DATABASE {} FROM bendybus"
        ).format(sql.Identifier(name), sql.Identifier(name))
    )
    try:
        said = await refusal(served([urls[0]]), StoreRefused)
        assert "may not make tables there; GRANT CREATE ON DATABASE" in said
    finally:
        shared_postgres.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO bendybus").format(sql.Identifier(name))
        )


async def test_a_schema_of_a_later_release_is_refused(urls: list[str]) -> None:
    await start(served(urls[:2]))
    with psycopg.connect(urls[1]) as connection:
        connection.execute("UPDATE bendybus.version SET version = 99, oldest_reader = 98")
    assert "run a newer release" in await refusal(served(urls[:2]), StoreRefused)


async def test_a_server_without_enough_sessions_is_refused(
    urls: list[str], shared_postgres: PostgresServer
) -> None:
    [(allowed,)] = shared_postgres.execute("SHOW max_connections")
    workers = int(allowed) // (3 * CONNECTIONS_PER_STORE) + 1
    settings = served(urls)
    with pytest.raises(StoreRefused, match="raise max_connections") as refused:
        await identify(settings, dict(enumerate(settings.places)), front_ends=workers)
    assert f"{3 * CONNECTIONS_PER_STORE * workers} are needed here" in str(refused.value)
    assert all(map(is_untouched, urls))


async def test_servers_that_cannot_be_reached_are_named() -> None:
    url = f"postgresql://bendybus:{PASSWORD}@127.0.0.1:{free_port()}/orders"
    said = await refusal(served([url]), StartRefused)
    assert "no store can be reached" in said
    assert "Connection refused" in said


async def test_a_known_cluster_starts_without_a_server_that_is_away(urls: list[str]) -> None:
    away = f"postgresql://bendybus@127.0.0.1:{free_port()}/orders"
    await start(served(urls[:1]))
    await start(served(urls[:2]))
    async with open_stores(served([away, urls[1]])) as stores:
        assert [store.is_online for store in stores] == [False, True]


async def test_a_new_cluster_does_not_start_without_one_of_its_servers(urls: list[str]) -> None:
    away = f"postgresql://bendybus@127.0.0.1:{free_port()}/orders"
    said = await refusal(served([urls[0], away]), StoreMismatch)
    assert "all of them are needed at the first start" in said
    assert is_untouched(urls[0])


async def test_a_store_that_says_it_moved_is_opened_where_it_is(urls: list[str]) -> None:
    await start(served(urls[:1]))
    settings = served(urls[:1])
    found = await identify(settings, dict(enumerate(settings.places)), front_ends=1)
    _, identity = found[0]
    store = store_at(0, served(urls[1:2]).places[0], identity=replace(identity, may_claim=True))
    await store.start()
    await store.close()
    with psycopg.connect(urls[0]) as connection:
        connection.execute("UPDATE bendybus.identity SET moved_to = %s", (urls[1],))
    async with open_stores(settings) as stores:
        assert stores[0].is_online
        assert stores[0].status().path == str(served(urls[1:2]).places[0])


async def test_a_store_moved_out_of_the_data_folder_is_opened_where_it_is(
    tmp_path: Path, urls: list[str]
) -> None:
    settings = settle([Choices(data=tmp_path, stores=2)], Namespace("shop"))
    url_file(tmp_path, 1).write_text(f"{urls[0]}\n")
    assert "is empty, but store 1 was used before" in await refusal(settings, StoreMismatch)
    moved = StoreIdentity(cluster_of(tmp_path), 1, 2, ("shop",), may_claim=True)
    store = store_at(1, served(urls[:1]).places[0], identity=moved)
    await store.start()
    await store.close()
    async with open_stores(settings) as stores:
        assert [store.is_online for store in stores] == [True, True]
        assert [store.is_shared for store in stores] == [False, True]


def test_a_file_with_a_wrong_url_is_named(tmp_path: Path) -> None:
    settings = settle([Choices(data=tmp_path, stores=1)], Namespace("shop"))
    url_file(tmp_path, 0).write_text(f"postgresql://bendybus:{PASSWORD}@somewhere\n")
    with pytest.raises(SettingInvalid, match=r"store-00\.url names no database") as refused:
        places_of(settings)
    assert PASSWORD not in str(refused.value)
