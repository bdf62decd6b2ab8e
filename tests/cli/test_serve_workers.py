"""`bendybus serve --workers`: several processes behind the same doors."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from bendybus.client import Client, Message
from bendybus.client.blocking import Sender
from bendybus.client.errors import ConnectionLost
from bendybus.testing.postgres import PostgresServer
from tests.cli.command import SECONDS_MAX, Serving, run, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "namespace.yaml"


def workers_of(broker: Serving) -> set[int]:
    """Return the processes that the broker has made."""
    pid = broker.process.pid
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def threads_of(pid: int) -> list[int]:
    return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]


def processors_of(pid: int) -> list[int]:
    """Return the processors on which any thread of a process may run."""
    return sorted({each for thread in threads_of(pid) for each in os.sched_getaffinity(thread)})


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def client_of(broker: Serving) -> Client:
    port = broker.ready["amqp_port"]
    return Client.from_connection_string(
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )


def is_sent(sender: Sender, body: str) -> bool:
    """Send, unless the connection is found to be lost."""
    try:
        sender.send(Message(body))
    except ConnectionLost:
        return False
    return True


def metrics_of(broker: Serving, name: str) -> dict[str, float]:
    """Return the values of a metric by their labels."""
    with urlopen(f"http://127.0.0.1:{broker.ready['http_port']}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}{{(.*)}} (.*)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def connections(broker: Serving) -> list[float]:
    values = metrics_of(broker, "bendybus_connections")
    return [value for labels, value in values.items() if 'protocol="amqp"' in labels]


def test_clients_are_spread_and_every_worker_serves_every_entity(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE, "--workers", "2") as broker:
        assert "2 workers share the doors" in broker.announcement
        assert len(workers_of(broker)) == 2
        with client_of(broker) as one, client_of(broker) as other:
            receiver = other.receiver("orders")
            assert receiver.receive(1, timeout=0.1) == []
            one.sender("orders").send([Message("a"), Message("b")])
            received = receiver.receive(2, timeout=10)
            assert len(received) == 2
            for message in received:
                receiver.complete(message)
            assert connections(broker) == [1, 1]
            up = metrics_of(broker, "bendybus_worker_up")
            assert up == {'worker="0"': 1, 'worker="1"': 1}
            done = metrics_of(broker, "bendybus_messages_completed_total")
            assert sum(done.values()) == 2
            assert all(labels.startswith('worker="') for labels in done)
            held = metrics_of(broker, "bendybus_messages")
            assert not any("worker" in labels for labels in held)
        code, errors = broker.end(signal.SIGTERM)
    assert (code, errors) == (0, "Stopping; once more ends it at once.\n")
    assert not (tmp_path / "ready.json").exists()


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE, "--workers", "2") as broker:
        with client_of(broker) as one, client_of(broker) as other:
            senders = one.sender("orders"), other.sender("orders")
            for sender in senders:
                sender.send(Message("before"))
            before = workers_of(broker)
            os.kill(min(before), signal.SIGKILL)
            for sender in senders:
                until(partial(is_sent, sender, "after"))
            until(lambda: len(workers_of(broker) - before) == 1)
            received = one.receiver("orders").receive(4, timeout=10)
            assert sorted(str(each.body) for each in received) == ["after"] * 2 + ["before"] * 2
        code, errors = broker.end(signal.SIGINT)
    assert code == 0
    assert re.search(r"error: worker \d ended \(-9\); another starts in 0\.1 s", errors)


@pytest.fixture
def usable() -> Iterator[list[int]]:
    """Let what a test starts use two processors, or the only one there is."""
    allowed = os.sched_getaffinity(0)
    chosen = sorted(allowed)[:2]
    os.sched_setaffinity(0, chosen)
    yield chosen
    os.sched_setaffinity(0, allowed)


def test_each_worker_keeps_to_a_processor_if_there_is_one_for_each(
    tmp_path: Path, usable: list[int]
) -> None:
    with serving(tmp_path, "--config", EXAMPLE, "--workers", "2") as broker:
        kept_to = {each: processors_of(each) for each in workers_of(broker)}
        assert {each for [each] in kept_to.values()} == set(usable)
        policies = {os.sched_getscheduler(each) for pid in kept_to for each in threads_of(pid)}
        assert policies == {os.SCHED_BATCH}, "none takes it from a client when it is woken"
        # The next to come takes the place that has become free.
        ended, *others = kept_to
        os.kill(ended, signal.SIGKILL)
        until(lambda: len(workers_of(broker) - {ended, *others}) == 1)
        [new] = workers_of(broker) - {ended, *others}
        until(lambda: processors_of(new) == kept_to[ended])


@pytest.mark.prove
def test_a_worker_that_stands_still_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE, "--workers", "2") as broker:
        before = workers_of(broker)
        os.kill(min(before), signal.SIGSTOP)
        with client_of(broker) as one, client_of(broker) as other:
            for client in (one, other):
                until(partial(is_sent, client.sender("orders"), "x"))
        until(lambda: len(workers_of(broker) - before) == 1)


def test_workers_end_with_the_process_that_keeps_the_doors(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as broker:
        workers = workers_of(broker)
        broker.process.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with serving(tmp_path) as again:
        assert again.process.poll() is None


def test_a_store_is_taken_away_from_all_workers(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as broker:
        url = f"http://127.0.0.1:{broker.ready['http_port']}"

        def states() -> list[str]:
            listed = run("store", "list", "--output", "json", "--management-url", url)
            return [store["state"] for store in json.loads(listed.stdout)]

        assert run("store", "offline", "1", "--management-url", url).returncode == 0
        # One after the other is asked.
        assert [states(), states()] == [["online", "offline"]] * 2
        assert run("store", "online", "1", "--management-url", url).returncode == 0
        assert [states(), states()] == [["online", "online"]] * 2


@pytest.mark.spec("R1.2")
def test_a_store_moves_and_all_workers_follow(
    tmp_path: Path, shared_postgres: PostgresServer
) -> None:
    with shared_postgres.lent_database() as database:
        options = ("--config", EXAMPLE, "--stores", "1", "--workers", "2")
        with serving(tmp_path, *options) as broker:
            url = f"http://127.0.0.1:{broker.ready['http_port']}"
            with client_of(broker) as one, client_of(broker) as other:
                senders = one.sender("orders"), other.sender("orders")
                for sender in senders:
                    sender.send(Message("before"))
                # Whichever worker is asked knows how far it is.
                moved = run("store", "move", "0", database, "--management-url", url)
                assert moved.stdout.startswith("store 0 is at postgresql://"), moved.stderr
                for sender in senders:
                    sender.send(Message("after"))
                again = run("store", "move", "0", database, "--management-url", url)
                assert "start it anew to move it on" in again.stderr
            # One that starts now finds it there, beside the others.
            before = workers_of(broker)
            os.kill(min(before), signal.SIGKILL)
            until(lambda: len(workers_of(broker) - before) == 1)
            until(lambda: sum(metrics_of(broker, "bendybus_worker_up").values()) == 2)
            with client_of(broker) as one, client_of(broker) as other:
                received = one.receiver("orders").receive(4, timeout=10)
                assert len(received) == 4
                other.sender("orders").send(Message("late"))
                [late] = one.receiver("orders").receive(1, timeout=10)
                assert late.body == "late"
            code, errors = broker.end(signal.SIGTERM)
        assert code == 0
        assert "was moved to postgresql://" in errors, "the other worker has not said so"


def test_what_keeps_the_first_worker_from_starting_is_said_once(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"store-{number:02}.db").write_text("this is no database, " * 1000)
    result = run(
        "serve",
        "--data",
        tmp_path,
        "--stores",
        "2",
        "--workers",
        "3",
        "--amqp-port",
        "0",
        "--http-port",
        "0",
        "--flight-port",
        "none",
    )  # fmt: skip - one option per pair reads better
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("no store can be opened") == 1
