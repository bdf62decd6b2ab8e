"""The broker is killed while it creates and deletes namespaces: each is wholly there, or not."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from bendybus.model.access import make_sas
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.kill.stored_rows import rows_in, store_numbers

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
NAMES: Final = tuple(f"team-{number}" for number in range(4))
ROOT: Final = "RootManageSharedAccessKey"
QUEUE: Final = (
    '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription'
    ' xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/>'
    "</content></entry>"
)
# Killed so long after a request was sent: what one takes, and a little more.
KILL_SECONDS_MAX: Final = 0.05


@dataclass
class Known:
    """What clients know of namespaces: the key of each that is there, None of one that is not.

    Whether one is there that is in neither, they cannot know.
    """

    keys: dict[str, str | None] = field(default_factory=lambda: dict.fromkeys(NAMES))
    # The queue of a namespace is made in a request of its own.
    queues: set[str] = field(default_factory=set)
    asked: int = 0
    answers: int = 0


def call(
    broker: BrokerProcess, method: str, path: str, key: str, host: str = "localhost", body: str = ""
) -> httpx.Response:
    expires_at = datetime.now(UTC) + timedelta(minutes=5)
    headers = {"Host": host, "Authorization": make_sas(f"http://{host}/", ROOT, key, expires_at)}
    url = f"http://127.0.0.1:{broker.http_port}{path}"
    return httpx.request(method, url, headers=headers, content=body, timeout=30, trust_env=False)


def manage(broker: BrokerProcess, method: str, path: str) -> httpx.Response:
    return call(broker, method, f"/$namespaces{path}", "SAS_KEY_VALUE")


def work(broker: BrokerProcess, known: Known, rng: random.Random) -> None:
    """Create what is not there, with a queue in it, and delete what is, until cut off."""
    try:
        while True:
            name = rng.choice(NAMES)
            key = known.keys.pop(name)
            known.asked += 1
            if key is None:
                answer = manage(broker, "PUT", f"/{name}")
                assert answer.status_code == 201, answer.text
                key = known.keys[name] = str(answer.json()["primaryKey"])
                made = call(broker, "PUT", "/orders", key, name, QUEUE)
                assert made.status_code == 201, made.text
                known.queues.add(name)
            else:
                known.queues.discard(name)
                answer = manage(broker, "DELETE", f"/{name}?withEntities=true")
                assert answer.status_code == 204, answer.text
                known.keys[name] = None
            known.answers += 1
    except httpx.HTTPError:
        # Cut off: whether the last was done, nobody knows.
        return


def kill_in_the_midst(broker: BrokerProcess, known: Known, rng: random.Random) -> None:
    """Wait until so many requests were sent, and a little longer; then pull the plug."""
    waiting, deadline = threading.Event(), time.monotonic() + 60
    wanted = known.asked + rng.randint(1, 8)
    while known.asked < wanted:
        assert time.monotonic() < deadline, "the broker does not answer"
        waiting.wait(0.001)
    waiting.wait(rng.random() * KILL_SECONDS_MAX)
    broker.kill()


def standing_in(broker: BrokerProcess, store: int) -> list[tuple[Any, ...]]:
    """Return what a store has, without what is being deleted there with its namespace."""
    standing = "SELECT number, namespace, name, version FROM entity WHERE is_removed = 0"
    found = rows_in(broker, store, standing)
    made = {f"{name}#{number}" for number, namespace, name, _ in found if namespace[0] == "$"}
    return sorted(each for each in found if "#" not in each[1] or each[1] in made)


def check(broker: BrokerProcess, known: Known) -> None:
    """All stores say the same, and what was answered; what was not is done or undone."""
    copies = [standing_in(broker, store) for store in store_numbers(broker)]
    assert all(copy == copies[0] for copy in copies)
    there = {name: number for number, namespace, name, _ in copies[0] if namespace == "$namespaces"}
    for name in NAMES:
        if name in known.keys:
            assert (name in there) is (known.keys[name] is not None), "as it was answered"
        if name not in there:
            known.keys[name] = None
            continue
        for store in store_numbers(broker):
            kept = "SELECT 1 FROM access WHERE namespace = ?"
            found = rows_in(broker, store, kept, (f"{name}#{there[name]}",))
            assert found == [(1,)], "a namespace is there with its keys"
        told = manage(broker, "POST", f"/{name}/$authorizationRules/{ROOT}/listKeys").json()
        assert known.keys.setdefault(name, told["primaryKey"]) == told["primaryKey"]
        queue = call(broker, "GET", "/orders", told["primaryKey"], name)
        if name in known.queues:
            assert queue.status_code == 200, "the queue is there as it was answered"


def run(folder: Path, stores: Sequence[str], seed: int, kills: int) -> None:
    rng, known = random.Random(seed), Known()
    options = () if stores else ("--stores", "4")
    with broker_process(CONFIG, folder=folder, options=options, stores=stores) as broker:
        for _ in range(kills):
            thread = threading.Thread(target=work, args=(broker, known, rng))
            thread.start()
            kill_in_the_midst(broker, known, rng)
            thread.join()
            broker.start()
            check(broker, known)
        assert known.answers > kills / 4
        for name in NAMES:
            manage(broker, "DELETE", f"/{name}?withEntities=true")
        assert [each["name"] for each in manage(broker, "GET", "").json()][1:] == []


@pytest.mark.prove
@pytest.mark.spec("R7.1")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "stores"), [(0, "files"), (1, "files"), (2, "databases")], indirect=["stores"]
)
def test_after_kills_every_namespace_is_wholly_there_or_wholly_not(
    tmp_path: Path, stores: Sequence[str], seed: int
) -> None:
    run(tmp_path, stores, seed, kills=30)
