"""REST messaging: send, receive, settle, on every kind of entity, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from bendybus.broker.delete import delete
from bendybus.broker.joined_receive import JoinedReceives
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.ids import SubQueue
from bendybus.model.message import StoredMessage
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker, serving_http
from tests.http.rest_client import (
    ENTITIES,
    KINDS,
    RULES,
    RestClient,
    properties_of,
    say_and_hang_up,
    token,
    until,
)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES, ManualClock(), stores=2) as broker:
        yield broker


@pytest.fixture
async def port(broker: LocalBroker) -> AsyncIterator[int]:
    async with serving_http(broker, RULES) as server:
        yield server.port


@pytest.fixture
async def client(port: int) -> AsyncIterator[RestClient]:
    async with RestClient(port) as client:
        yield client


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[str, str]:
    return KINDS[request.param]


async def test_what_is_sent_is_received_for_good_with_its_type(
    client: RestClient, kind: tuple[str, str]
) -> None:
    to, of = kind
    await client.send(to, b"<order/>", {"Content-Type": "application/xml"})
    answer = await client.take(of)
    assert (answer.status_code, answer.content) == (200, b"<order/>")
    assert answer.headers["content-type"] == "application/xml"
    assert "LockToken" not in properties_of(answer)
    assert "location" not in answer.headers
    assert (await client.take(of)).status_code == 204


async def test_a_locked_message_is_completed_at_the_location_it_came_with(
    client: RestClient, kind: tuple[str, str]
) -> None:
    to, of = kind
    await client.send(to, b"one")
    locked = await client.lock(of)
    assert (locked.status_code, locked.content) == (201, b"one")
    properties = properties_of(locked)
    assert properties["DeliveryCount"] == 1
    assert properties["State"] == "Active"
    location = locked.headers["location"]
    assert location.endswith(f"/messages/{properties['SequenceNumber']}/{properties['LockToken']}")
    assert (await client.lock(of)).status_code == 204
    assert (await client.call("DELETE", location)).status_code == 200
    assert (await client.call("DELETE", location)).status_code == 410
    assert (await client.lock(of)).status_code == 204


async def test_an_unlocked_message_comes_again_and_is_counted(
    client: RestClient, kind: tuple[str, str]
) -> None:
    to, of = kind
    await client.send(to, b"again", broker={"MessageId": "m/1"})
    for count in (1, 2):
        locked = properties_of(await client.lock(of))
        assert (locked["DeliveryCount"], locked["MessageId"]) == (count, "m/1")
        # The id may be that of the message as well as its sequence number.
        answer = await client.call("PUT", f"/{of}/messages/m%2F1/{locked['LockToken']}")
        assert answer.status_code == 200


async def test_a_renewed_lock_lasts_longer(
    client: RestClient, broker: LocalBroker, kind: tuple[str, str]
) -> None:
    to, of = kind
    assert isinstance(broker.clock, ManualClock)
    await client.send(to)
    locked = await client.lock(of)
    broker.clock.advance(50)
    renewed = await client.call("POST", locked.headers["location"])
    assert renewed.status_code == 200
    assert properties_of(renewed)["LockedUntilUtc"] > properties_of(locked)["LockedUntilUtc"]
    broker.clock.advance(50)
    assert (await client.call("DELETE", locked.headers["location"])).status_code == 200


async def test_a_lock_that_ended_can_be_neither_used_nor_renewed(
    client: RestClient, broker: LocalBroker
) -> None:
    assert isinstance(broker.clock, ManualClock)
    await client.send("plain")
    locked = await client.lock("plain")
    broker.clock.advance(61)
    for method in ("DELETE", "PUT", "POST"):
        answer = await client.call(method, locked.headers["location"])
        assert (answer.status_code, "SubCode=41000" in answer.text) == (410, True)


async def test_a_receive_waits_for_the_message(client: RestClient, kind: tuple[str, str]) -> None:
    to, of = kind
    waiting = asyncio.create_task(client.take(of, seconds=30))
    await asyncio.sleep(0)
    await client.send(to, b"late")
    assert (await waiting).content == b"late"


@pytest.mark.spec("R3.4")
@pytest.mark.parametrize("connection", ["keep-alive", "close"])
async def test_receives_drain_an_entity_of_few_messages_and_none_comes_back_empty(
    client: RestClient, kind: tuple[str, str], connection: str
) -> None:
    to, of = kind
    for number in range(5):
        await client.send(to, b"%d" % number)
    received = []
    for _ in range(5):
        answer = await client.call(
            "DELETE", f"/{of}/messages/head?timeout=0", headers={"Connection": connection}
        )
        assert answer.status_code == 200
        received.append(answer.content)
    assert sorted(received) == [b"0", b"1", b"2", b"3", b"4"]
    assert (await client.take(of)).status_code == 204


@pytest.mark.spec("R3.4")
async def test_many_at_once_each_get_one(client: RestClient, kind: tuple[str, str]) -> None:
    to, of = kind
    waiting = [asyncio.create_task(client.lock(of, seconds=30)) for _ in range(20)]
    await asyncio.gather(*(client.send(to, b"%d" % number) for number in range(20)))
    answers = await asyncio.gather(*waiting)
    assert sorted(int(answer.content) for answer in answers) == list(range(20))


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_who_hangs_up_takes_no_message_along(
    client: RestClient, port: int, broker: LocalBroker, kind: tuple[str, str], method: str
) -> None:
    to, of = kind
    # Virtual time stands still: a lock that was not given back would never end.
    await client.send(to, b"kept")
    request = (
        f"{method} /{of}/messages/head?timeout=60 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {client.authorization}\r\n\r\n"
    ).encode()
    queue = broker.queue(unquote(of))
    before = queue.uses
    for _ in range(20):
        say_and_hang_up(port, request)
    # Each comes, and goes.
    await until(lambda: queue.uses == before + 40 and not queue.is_used)
    assert (await client.take(of)).content == b"kept"


async def test_who_hangs_up_while_waiting_waits_no_more(
    client: RestClient, port: int, broker: LocalBroker
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"DELETE /plain/messages/head?timeout=60 HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: " + client.authorization.encode() + b"\r\n\r\n"
    )
    waiters = broker.queue("plain").main.waiting._waiters
    await until(lambda: len(waiters) == 1)
    writer.close()
    await until(lambda: len(waiters) == 0)
    await client.send("plain", b"mine")
    assert (await client.take("plain")).content == b"mine"


async def test_dead_letters_are_received_by_the_path_of_their_queue(
    client: RestClient, kind: tuple[str, str]
) -> None:
    to, of = kind
    await client.send(to, b"poison")
    for _ in range(10):
        locked = await client.lock(of)
        await client.call("PUT", locked.headers["location"])
    assert (await client.lock(of)).status_code == 204
    locked = await client.lock(f"{of}/%24deadletterqueue")
    assert (locked.status_code, locked.content) == (201, b"poison")
    assert locked.headers["DeadLetterReason"] == '"MaxDeliveryCountExceeded"'
    assert (await client.call("DELETE", locked.headers["location"])).status_code == 200
    assert (await client.take(f"{of}/$DeadLetterQueue")).status_code == 204
    assert (await client.take(f"{of}/$Transfer/$DeadLetterQueue")).status_code == 204


async def test_session_entities_take_messages_and_give_none(client: RestClient) -> None:
    await client.send("sessions", b"one", broker={"SessionId": "a"})
    refused = await client.call("POST", "/sessions/messages", b"two")
    assert (refused.status_code, "SessionId was not set" in refused.text) == (400, True)
    for method in ("POST", "DELETE"):
        answer = await client.call(method, "/sessions/messages/head?timeout=0")
        assert (answer.status_code, "requires sessions" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", "/news/Subscriptions/all/messages", "sent to a subscription"),
        ("POST", "/plain/$DeadLetterQueue/messages", "sent to a dead-letter queue"),
        ("DELETE", "/news/messages/head", "received from the topic"),
        ("POST", "/news/messages/head", "received from the topic"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    client: RestClient, method: str, path: str, text: str
) -> None:
    answer = await client.call(method, path)
    assert (answer.status_code, text in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    ("rule", "key", "sends", "receives"),
    [
        ("Root", "root-key", 201, 200),
        ("Sender", "send-key", 201, 401),
        ("Listener", "listen-key", 401, 200),
        ("Sender", "guess", 401, 401),
    ],
)
async def test_each_direction_needs_its_right(
    port: int, client: RestClient, rule: str, key: str, sends: int, receives: int
) -> None:
    await client.send("plain")
    async with RestClient(port, token(rule, key)) as other:
        assert (await other.call("POST", "/plain/messages")).status_code == sends
        assert (await other.take("plain")).status_code == receives
        locked = await client.lock("plain")
        if locked.status_code == 201:
            for method in ("POST", "DELETE"):
                answer = await other.call(method, locked.headers["location"])
                assert answer.status_code == receives


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        ("http://localhost/plain", 201),
        ("sb://localhost/PLAIN/", 201),
        ("https://localhost/plain/messages", 201),
        ("http://localhost/plain/messages/head", 401),
        ("http://localhost/plai", 401),
        ("http://localhost/news", 401),
    ],
)
async def test_a_token_opens_what_it_is_signed_for(port: int, resource: str, status: int) -> None:
    async with RestClient(port, token(resource=resource)) as client:
        assert (await client.call("POST", "/plain/messages")).status_code == status


async def test_nobody_learns_without_a_token_which_entities_there_are(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        for entity in ("plain", "nothing"):
            answer = await client.post(f"/{entity}/messages", content=b"x" * 300_000)
            assert answer.status_code in (401, 413)
            answer = await client.post(f"/{entity}/messages")
            assert (answer.status_code, "MissingToken" in answer.text) == (401, True)


async def test_what_is_not_there_is_not_found(client: RestClient) -> None:
    for method, path in (
        ("POST", "/nothing/messages"),
        ("DELETE", "/nothing/messages/head"),
        ("POST", "/news/Subscriptions/nothing/messages/head"),
    ):
        answer = await client.call(method, path)
        assert (answer.status_code, "could not be found" in answer.text) == (404, True)


@pytest.mark.spec("R7.3")
@pytest.mark.parametrize(
    ("entity", "version", "status"),
    [
        ("plain", "2013-08", 201),
        ("wide/parts", "2013-08", 400),
        ("wide/parts", "2013-10", 201),
        ("wide/parts", "2015-01", 201),
        ("plain", "latest", 400),
        ("plain", "2021-13", 400),
    ],
)
@pytest.mark.parametrize("name", ["api-version", "API-Version"])
async def test_old_versions_do_not_know_partitions(
    client: RestClient, entity: str, version: str, status: int, name: str
) -> None:
    answer = await client.call("POST", f"/{entity}/messages?timeout=60&{name}={version}")
    assert answer.status_code == status


async def test_a_batch_comes_whole(client: RestClient, kind: tuple[str, str]) -> None:
    to, of = kind
    batch = [
        {"Body": "plain ✓", "UserProperties": {"n": 1, "on": True, "x": 0.5, "s": "t"}},
        {"Body": "AAEC", "IsBodyBase64": True, "BrokerProperties": {"Label": "bytes"}},
    ]
    headers = {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    await client.send(to, json.dumps(batch).encode(), headers)
    answers = [await client.take(of) for _ in batch]
    assert [answer.content for answer in answers] == ["plain ✓".encode(), b"\x00\x01\x02"]
    first, second = answers
    assert [first.headers[name] for name in ("n", "on", "x", "s")] == ["1", "true", "0.5", '"t"']
    assert properties_of(second)["Label"] == "bytes"


async def test_a_batch_with_one_bad_message_is_refused_whole(client: RestClient) -> None:
    batch = [{"Body": "good"}, {"Body": "bad", "BrokerProperties": {"SessionId": "x" * 129}}]
    answer = await client.call(
        "POST",
        "/plain/messages",
        json.dumps(batch).encode(),
        {"Content-Type": "application/vnd.microsoft.servicebus.json; charset=utf-8"},
    )
    assert answer.status_code == 400
    assert (await client.take("plain")).status_code == 204


async def test_duplicates_are_accepted_and_dropped(client: RestClient) -> None:
    for _ in range(2):
        await client.send("distinct", b"once", broker={"MessageId": "same"})
    batch = json.dumps(
        [{"Body": "x", "BrokerProperties": {"MessageId": each}} for each in ("same", "a", "b")]
    )
    await client.send(
        "distinct", batch.encode(), {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    )
    received = [(await client.take("distinct")).status_code for _ in range(4)]
    assert received == [200, 200, 200, 204]


async def test_a_message_larger_than_the_entity_takes_is_refused(client: RestClient) -> None:
    assert (await client.call("POST", "/plain/messages", b"x" * 262_000)).status_code == 201
    # The body fits, its properties beside it do not.
    refused = await client.call("POST", "/plain/messages", b"x" * 262_144)
    assert (refused.status_code, "takes 262144" in refused.text) == (413, True)
    assert (await client.take("plain")).status_code == 200
    assert (await client.take("plain")).status_code == 204


async def test_a_body_in_chunks_is_a_body(client: RestClient, kind: tuple[str, str]) -> None:
    to, of = kind

    async def chunks() -> AsyncIterator[bytes]:
        yield b"in "
        yield b"chunks"

    sent = await client.http.post(
        f"/{to}/messages", content=chunks(), headers={"Authorization": client.authorization}
    )
    assert sent.status_code == 201
    assert (await client.take(of)).content == b"in chunks"


async def test_a_send_fails_when_its_store_is_away(client: RestClient, broker: LocalBroker) -> None:
    [source] = broker.queue("plain").sub_queues[SubQueue.MAIN].sources
    await source.store.take_offline("gone")
    refused = await client.call("POST", "/plain/messages", b"x")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "4")
    await client.send("wide/parts", b"another takes it")


async def test_who_waits_hears_that_the_entity_is_deleted(
    client: RestClient, broker: LocalBroker
) -> None:
    waiting = asyncio.create_task(client.take("plain", seconds=60))
    await until(lambda: broker.queue("plain").is_used)
    await delete(broker.catalog, "plain")
    assert (await waiting).status_code == 404
    assert (await client.call("POST", "/plain/messages")).status_code == 404


async def test_who_is_about_to_wait_hears_that_the_entity_is_deleted(
    client: RestClient, broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = JoinedReceives.ask

    async def ask_and_see_it_deleted(
        joined: JoinedReceives, sub_queue: ServedSubQueue
    ) -> StoredMessage | None:
        found = await ask(joined, sub_queue)
        await delete(broker.catalog, "plain")
        return found

    monkeypatch.setattr(JoinedReceives, "ask", ask_and_see_it_deleted)
    assert (await client.take("plain", seconds=60)).status_code == 404


async def test_what_is_asked_together_is_taken_together(
    client: RestClient, broker: LocalBroker
) -> None:
    for number in range(16):
        await client.send("plain", b"%d" % number)
    answers = await asyncio.gather(*(client.lock("plain") for _ in range(20)))
    assert sorted(int(each.content) for each in answers if each.status_code == 201) == list(
        range(16)
    )
    assert sum(each.status_code == 204 for each in answers) == 4
    # Nothing was read ahead and kept.
    for answer in answers:
        if answer.status_code == 201:
            await client.call("PUT", answer.headers["location"])
    assert len([1 for _ in range(17) if (await client.take("plain")).status_code == 200]) == 16
    assert broker.queue("plain").is_used is False
