"""`/metrics`: the figures after known traffic, exactly, by entity and fragment."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from bendybus.broker.sessions import accept_session, release_session
from bendybus.http.metric_families import FAMILIES
from bendybus.http.metrics import FRESH_MS
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker, serving_http
from tests.http.rest_client import RULES, RestClient
from tests.http.store_shelf import StoreShelf, authorized
from tests.http.test_app import app_with, client_of

ENTITIES: Final = (
    Queue("plain"),
    Queue("wide", QueueProperties(enable_partitioning=True)),
    Queue("distinct", QueueProperties(requires_duplicate_detection=True)),
    Queue("metrics"),
    Queue("sessions", QueueProperties(requires_session=True, enable_partitioning=True)),
    Topic("news", TopicProperties(), (Subscription("all"), Subscription("more"))),
)
STORES: Final = 2


class Figures:
    """What one scrape said."""

    def __init__(self, text: str) -> None:
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def of(self, name: str, **labels: str) -> float:
        """Add up the values with these labels, whatever their others are."""
        wanted = set(labels.items())
        found = [
            value
            for (other, others), value in self.values.items()
            if other == f"bendybus_{name}" and wanted <= others
        ]
        assert found, f"there is no {name} with {labels}"
        return sum(found)

    def names(self) -> set[str]:
        """The names of all values."""
        return {name for name, _ in self.values}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES, clock, stores=STORES) as broker:
        yield broker


@pytest.fixture
async def client(broker: LocalBroker) -> AsyncIterator[RestClient]:
    async with serving_http(broker, RULES) as server, RestClient(server.port) as client:
        yield client


async def scrape(client: RestClient, clock: ManualClock) -> Figures:
    """Read the figures as of now, not those that somebody has just asked for."""
    clock.advance(FRESH_MS / 1000)
    answer = await client.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Figures(answer.text)


async def test_what_is_sent_received_and_settled_is_counted(
    client: RestClient, clock: ManualClock
) -> None:
    for content in (b"one", b"three", b"five5"):
        await client.send("plain", content)
    clock.advance(2)
    before = await scrape(client, clock)
    assert before.of("messages", entity="plain", state="active") == 3
    assert before.of("messages_accepted_total", entity="plain") == 3
    assert before.of("oldest_message_age_seconds", entity="plain") == (2000 + FRESH_MS) / 1000
    assert before.of("fragment_bytes", entity="plain") > before.of(
        "accepted_bytes_total", entity="plain"
    )
    taken = await client.take("plain")
    assert taken.content == b"one"
    locked = await client.call("POST", "/plain/messages/head?timeout=0")
    assert locked.status_code == 201
    during = await scrape(client, clock)
    assert during.of("messages", entity="plain", state="active") == 2
    assert during.of("messages_locked", entity="plain") >= 1
    await client.call("PUT", httpx.URL(locked.headers["location"]).path)
    after = await scrape(client, clock)
    assert after.of("messages_completed_total", entity="plain") == 1
    assert after.of("messages_abandoned_total", entity="plain") == 1
    delivered = after.of("messages_delivered_total", entity="plain")
    assert delivered >= 2


async def test_every_fragment_tells_what_it_has(
    client: RestClient, clock: ManualClock, broker: LocalBroker
) -> None:
    keys = [f"key-{number}" for number in range(40)]
    for key in keys:
        await client.send("wide", b"x", broker={"PartitionKey": key})
    figures = await scrape(client, clock)
    for source in broker.queue("wide").main.sources:
        held = (await source.store.counts(source.number)).messages
        labels = {"entity": "wide", "fragment": str(source.fragment), "sub_queue": "main"}
        assert figures.of("messages", **labels, state="active") == held
    assert figures.of("messages_accepted_total", entity="wide") == len(keys)


async def test_duplicates_are_counted_where_they_are_left_out(
    client: RestClient, clock: ManualClock
) -> None:
    for _ in range(3):
        await client.send("distinct", b"x", broker={"MessageId": "same"})
    figures = await scrape(client, clock)
    assert figures.of("messages_accepted_total", entity="distinct") == 1
    assert figures.of("messages_dropped_total", entity="distinct") == 2


async def test_a_topic_counts_what_came_and_each_subscription_what_it_took(
    client: RestClient, clock: ManualClock
) -> None:
    await client.send("news", b"12345")
    figures = await scrape(client, clock)
    assert figures.of("messages_accepted_total", entity="news") == 1
    for name in ("all", "more"):
        path = f"news/Subscriptions/{name}"
        assert figures.of("messages_accepted_total", entity=path) == 1
        assert figures.of("messages", entity=path, state="active") == 1


async def test_what_expires_and_lapses_is_counted(
    client: RestClient, clock: ManualClock, broker: LocalBroker
) -> None:
    await client.send("plain", b"x", broker={"TimeToLive": 5})
    await client.send("plain", b"y")
    await client.call("POST", "/plain/messages/head?timeout=0")
    clock.advance(120)
    await broker.sweep.sweep_all()
    clock.advance(120)
    await broker.sweep.sweep_all()
    figures = await scrape(client, clock)
    assert figures.of("messages_lapsed_total", entity="plain") >= 1
    assert figures.of("messages_expired_total", entity="plain") == 1


async def test_a_store_that_is_away_is_down_and_its_fragments_say_nothing_of_what_they_hold(
    client: RestClient, clock: ManualClock, broker: LocalBroker
) -> None:
    for number in range(20):
        await client.send("wide", b"x", broker={"PartitionKey": str(number)})
    whole = await scrape(client, clock)
    assert [whole.of("store_up", store=str(at)) for at in range(STORES)] == [1, 1]
    await broker.stores[1].take_offline("drill")
    figures = await scrape(client, clock)
    assert [figures.of("store_up", store=str(at)) for at in range(STORES)] == [1, 0]
    there = {
        str(source.fragment)
        for source in broker.queue("wide").main.sources
        if source.store is broker.stores[0]
    }
    told = {
        dict(labels)["fragment"]
        for name, labels in figures.values
        if name == "bendybus_messages" and ("entity", "wide") in labels
    }
    assert told == there
    # What was counted stays.
    assert figures.of("messages_accepted_total", entity="wide") == 20


async def test_counters_begin_anew_with_the_broker_and_gauges_are_right(
    tmp_path: Path, clock: ManualClock
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for sent in (1, 2):
        async with (
            local_broker(folder, ENTITIES, clock, stores=STORES) as broker,
            serving_http(broker, RULES) as server,
            RestClient(server.port) as client,
        ):
            await client.send("plain", b"x")
            figures = await scrape(client, clock)
            assert figures.of("messages", entity="plain", state="active") == sent
            assert figures.of("messages_accepted_total", entity="plain") == 1


async def test_sessions_that_somebody_holds_are_counted(
    client: RestClient, clock: ManualClock, broker: LocalBroker
) -> None:
    await client.send("sessions", b"x", broker={"SessionId": "a"})
    before = await scrape(client, clock)
    assert before.of("sessions_held", entity="sessions") == 0
    assert before.of("messages", entity="sessions", state="active") == 1
    main = broker.queue("sessions").main
    session = await accept_session(main, "a", clock)
    held = await scrape(client, clock)
    assert held.of("sessions_held", entity="sessions") == 1
    await release_session(main, session, clock)
    assert (await scrape(client, clock)).of("sessions_held", entity="sessions") == 0


async def test_commits_are_counted_by_how_long_they_took(
    client: RestClient, clock: ManualClock, broker: LocalBroker
) -> None:
    await client.send("plain", b"x")
    figures = await scrape(client, clock)
    for store in range(STORES):
        commits = figures.of("store_commit_seconds_count", store=str(store))
        assert 0 < commits <= broker.stores[store].commits
        assert figures.of("store_commit_seconds_bucket", store=str(store), le="+Inf") == commits
        assert figures.of("store_commit_callers_sum", store=str(store)) >= commits


async def test_many_who_ask_at_once_are_answered_by_one_survey(
    client: RestClient, broker: LocalBroker
) -> None:
    await client.http.get("/metrics")
    commits = [store.commits for store in broker.stores]
    await asyncio.gather(*(client.http.get("/metrics") for _ in range(20)))
    assert [store.commits for store in broker.stores] == commits


async def test_a_settlement_that_is_refused_is_not_counted_as_one(
    client: RestClient, clock: ManualClock
) -> None:
    await client.send("plain", b"x")
    locked = await client.call("POST", "/plain/messages/head?timeout=0")
    path = httpx.URL(locked.headers["location"]).path
    assert (await client.call("DELETE", path)).status_code == 200
    assert (await client.call("DELETE", path)).status_code in {404, 410}
    figures = await scrape(client, clock)
    assert figures.of("messages_completed_total", entity="plain") == 1


async def test_openmetrics_is_spoken_to_who_asks_for_it(client: RestClient) -> None:
    await client.send("plain", b"x")
    accept = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"}
    answer = await client.http.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    parse = openmetrics.text_string_to_metric_families
    read = parse(answer.text)  # type: ignore[no-untyped-call]  # the library has no types there
    families = {each.name for each in read}
    assert "bendybus_messages_accepted" in families


async def test_who_has_no_right_reads_nothing_where_readers_must_manage() -> None:
    async with client_of(app_with(StoreShelf(1))) as client:
        assert (await client.get("/metrics")).status_code == 401
        sender = authorized("Sender", "send-key")
        assert (await client.get("/metrics", headers=sender)).status_code == 401
        assert (await client.get("/metrics", headers=authorized())).status_code == 200


async def test_a_queue_of_that_name_is_still_managed(client: RestClient) -> None:
    answer = await client.call("GET", "/metrics?api-version=2021-05")
    assert "<QueueDescription" in answer.text


def test_no_two_metrics_share_a_name() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
