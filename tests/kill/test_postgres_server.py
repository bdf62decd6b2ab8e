"""The servers of the tests stop, die, pause and fail over as they are told."""

import select
from collections.abc import Iterator
from contextlib import closing
from typing import LiteralString

import psycopg
import pytest

from bendybus.testing.postgres import (
    UNSYNCED,
    PostgresServer,
    postgres_server,
    url_of,
)

SECONDS_MAX = 5.0
# How long no answer must come for a pause to be believed.
SILENCE_SECONDS = 0.1


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server(UNSYNCED) as server:
        yield server


def test_a_lent_database_is_empty_and_brokers_have_no_special_rights(
    server: PostgresServer,
) -> None:
    for _ in range(2):
        with server.lent_database() as url, psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA own")
            connection.execute("CREATE TABLE own.kept (id bigint)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE ROLE other")


def test_what_was_committed_outlives_stops_and_kills(server: PostgresServer) -> None:
    with server.lent_database() as url:
        run(url, "CREATE TABLE kept (id bigint)")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            run(url, "SELECT 1")
        server.start()
        run(url, "INSERT INTO kept VALUES (1)")
        server.kill()
        server.start()
        assert run(url, "SELECT id FROM kept") == [(1,)]


def test_a_paused_server_answers_when_it_goes_on(server: PostgresServer) -> None:
    with server.lent_database() as url, closing(psycopg.connect(url)) as connection:
        server.pause()
        connection.pgconn.send_query(b"SELECT 1")
        assert not is_answered(connection, SILENCE_SECONDS)
        server.resume()
        assert is_answered(connection, SECONDS_MAX)


def is_answered(connection: psycopg.Connection, seconds: float) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


def test_a_promoted_standby_has_what_was_committed_and_the_url_of_both_finds_it(
    server: PostgresServer,
) -> None:
    with server.lent_database() as url, server.standby() as standby:
        both = url_of([server.port, standby.port], url.rpartition("/")[2])
        run(both, "CREATE TABLE kept AS SELECT 7")
        server.kill()
        standby.promote()
        assert run(both, "TABLE kept") == [(7,)]
        server.start()


def run(url: str, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
