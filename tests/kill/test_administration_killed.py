"""The broker is killed while it creates and deletes: an entity is wholly there, or not (R7.1)."""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import pytest

from bendybus.model.access import make_sas
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.kill.stored_rows import rows_in, store_numbers

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
WORKERS: Final = 3
NAMES_EACH: Final = 4
# Killed so long after a request was sent: what one takes, and a little more.
KILL_SECONDS_MAX: Final = 0.05
PARTITIONED: Final = "<EnablePartitioning>true</EnablePartitioning>"


@dataclass
class Seen:
    """What clients know of one entity: whether it is there, or None when they cannot know."""

    is_there: bool | None = False
    # Who asked for what has been answered; counts up.
    answers: int = 0


@dataclass
class Life:
    """One life of the broker and those who change its entities."""

    broker: BrokerProcess
    rng: random.Random
    entities: dict[str, Seen] = field(default_factory=dict)
    asked: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)


def authorization() -> str:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    return make_sas("http://localhost/", "RootManageSharedAccessKey", "SAS_KEY_VALUE", expires_at)


def body_of(name: str) -> str:
    """Describe a topic or a queue, every other one partitioned."""
    kind = "Topic" if name.startswith("topic") else "Queue"
    inner = PARTITIONED if name.endswith(("1", "3")) else ""
    space = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{kind}Description xmlns="{space}">{inner}</{kind}Description></content></entry>'
    )


def work(life: Life, names: list[str], seed: int) -> None:
    """Create what is not there and delete what is, until the broker is gone."""
    rng = random.Random(seed)
    with httpx.Client(
        base_url=life.broker.management_url,
        headers={"Authorization": authorization()},
        params={"api-version": "2021-05"},
        trust_env=False,
        timeout=10,
    ) as http:
        while not life.is_over.is_set():
            name = rng.choice(names)
            seen = life.entities[name]
            is_wanted, seen.is_there = not seen.is_there, None
            life.asked += 1
            try:
                if is_wanted:
                    answer = http.put(f"/{name}", content=body_of(name))
                    assert answer.status_code == 201, answer.text
                else:
                    answer = http.delete(f"/{name}")
                    assert answer.status_code == 200, answer.text
            except httpx.HTTPError:
                # Cut off: whether it was done, nobody knows.
                return
            seen.is_there, seen.answers = is_wanted, seen.answers + 1


@contextmanager
def workers(life: Life) -> Iterator[None]:
    """Let several clients work, each on entities of its own."""
    names = list(life.entities)
    threads = [
        threading.Thread(target=work, args=(life, names[at::WORKERS], life.rng.random()))
        for at in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        life.is_over.set()
        for thread in threads:
            thread.join()


def kill_in_the_midst(life: Life, requests: int) -> None:
    """Wait until so many requests were sent, and a little longer; then pull the plug."""
    deadline = time.monotonic() + 60
    wanted = life.asked + requests
    while life.asked < wanted:
        assert time.monotonic() < deadline, "the broker does not answer"
        life.is_over.wait(0.001)
    life.is_over.wait(life.rng.random() * KILL_SECONDS_MAX)
    life.broker.kill()


def check_stores(broker: BrokerProcess, known: dict[int, tuple[object, ...]]) -> set[str]:
    """Check that all stores say the same, and have the queues for it; return the names."""
    standing = "SELECT number, name, version, places FROM entity WHERE is_removed = 0"
    copies = [
        rows_in(broker, store, f"{standing} ORDER BY number") for store in store_numbers(broker)
    ]
    assert len(copies) > 1
    assert all(copy == copies[0] for copy in copies)
    for store in store_numbers(broker):
        assert rows_in(broker, store, "SELECT * FROM prepared") == []
    for number, name, _, places in copies[0]:
        identity = known.setdefault(number, (name, places))
        assert identity == (name, places), "a number was given again"
        for fragment, (store, first) in enumerate(json.loads(places)):
            found = rows_in(
                broker,
                store,
                "SELECT number FROM queue WHERE entity = ? AND fragment = ? ORDER BY number",
                (number, fragment),
            )
            assert found == [(first + at,) for at in range(4)]
    return {name for _, name, *_ in copies[0]}


def run(folder: Path, stores: Sequence[str], seed: int, kills: int) -> None:
    """Kill the broker so often, and check after each start."""
    rng = random.Random(seed)
    known: dict[int, tuple[object, ...]] = {}
    kinds = ("queue", "topic")
    names = [f"{kinds[at % 2]}-{at // 2}" for at in range(WORKERS * NAMES_EACH)]
    options = () if stores else ("--stores", "4")
    with broker_process(CONFIG, folder=folder, options=options, stores=stores) as broker:
        life = Life(broker, rng, {name: Seen() for name in names})
        for _ in range(kills):
            life.is_over.clear()
            with workers(life):
                kill_in_the_midst(life, rng.randint(1, 12))
            broker.start()
            there = check_stores(broker, known)
            for name, seen in life.entities.items():
                if seen.is_there is not None:
                    assert (name in there) is seen.is_there, f"{name}, as it was answered"
                seen.is_there = name in there
        assert sum(seen.answers for seen in life.entities.values()) > kills / 2


@pytest.mark.spec("R7.1")
@pytest.mark.parametrize(
    ("seed", "kills", "stores"),
    [
        pytest.param(4, 6, "files", marks=pytest.mark.timeout(300)),
        *(
            pytest.param(seed, 60, stores, marks=[pytest.mark.prove, pytest.mark.timeout(1800)])
            for seed, stores in ((0, "files"), (1, "files"), (2, "files"), (3, "databases"))
        ),
    ],
    indirect=["stores"],
)
def test_after_kills_every_entity_is_wholly_there_or_wholly_not(
    tmp_path: Path, stores: Sequence[str], seed: int, kills: int
) -> None:
    run(tmp_path, stores, seed, kills)
