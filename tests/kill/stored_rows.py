"""What is written in the stores of a broker, row by row, whichever they are."""

import sqlite3
from contextlib import closing
from typing import Any, LiteralString

from bendybus.store.postgres.connecting import connect
from bendybus.testing.broker_process import BrokerProcess


def store_numbers(broker: BrokerProcess) -> range:
    """Return the numbers of a broker's stores."""
    return range(len(broker.stores) or len(list((broker.folder / "data").glob("store-*.db"))))


def rows_in(
    broker: BrokerProcess, store: int, statement: LiteralString, values: tuple[object, ...] = ()
) -> list[tuple[Any, ...]]:
    """Ask one store; `?` stands for a value."""
    if broker.stores:
        with connect(broker.stores[store]) as database:
            return database.execute(statement.replace("?", "%s"), values).fetchall()
    [path] = (broker.folder / "data").glob(f"store-{store:02}.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        return file.execute(statement, values).fetchall()
