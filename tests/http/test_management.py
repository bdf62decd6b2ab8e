"""Entities are made, shown, changed and deleted over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bendybus.atom.descriptions import read_facts
from bendybus.atom.properties import Kind
from bendybus.atom.rules import read_rule
from bendybus.atom.xml_reading import parse
from bendybus.broker.delete import delete
from bendybus.broker.tallying import Tallies
from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import EntityStatus, Subscription
from bendybus.model.ids import QueueNumber
from bendybus.model.rule import CorrelationFilter, FalseFilter, SqlAction, SqlFilter, TrueFilter
from tests.http.managing import IF_ANY, Administrator, managing, raw_body, subcode, text_of

KINDS = pytest.mark.parametrize(
    "is_partitioned", [False, True], ids=["conventional", "partitioned"]
)


@pytest.fixture
async def administrator(tmp_path: Path) -> AsyncIterator[Administrator]:
    async with managing(tmp_path) as administrator:
        yield administrator


@KINDS
@pytest.mark.spec("R1.3", "R1.4", "R7.1")
async def test_a_queue_is_created_shown_changed_and_deleted(
    administrator: Administrator, is_partitioned: bool
) -> None:
    answer = await administrator.create(
        "/q", Kind.QUEUE, lock_duration=timedelta(seconds=30), enable_partitioning=is_partitioned
    )
    assert answer.status_code == 201
    assert answer.headers["content-type"].startswith("application/atom+xml;type=entry")
    shown = await administrator.properties("/q")
    assert shown["lock_duration"] == timedelta(seconds=30)
    assert shown["enable_partitioning"] is is_partitioned
    assert shown["max_size_megabytes"] == (16 * 1024 if is_partitioned else 1024)
    changed = await administrator.update("/q", Kind.QUEUE, max_delivery_count=3)
    assert changed.status_code == 200
    assert administrator.broker.queue("q").properties.max_delivery_count == 3
    assert administrator.broker.queue("q").properties.lock_duration == timedelta(seconds=30)
    deleted = await administrator.call("DELETE", "/q")
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert subcode(await administrator.call("GET", "/q")) == "404/40400"
    assert not administrator.broker.catalog.has("q")


@KINDS
async def test_a_topic_its_subscriptions_and_their_rules_are_managed(
    administrator: Administrator, is_partitioned: bool
) -> None:
    await administrator.create("/t", Kind.TOPIC, enable_partitioning=is_partitioned)
    made = await administrator.create("/t/Subscriptions/s", Kind.SUBSCRIPTION, max_delivery_count=5)
    assert made.status_code == 201
    assert (await administrator.properties("/t/subscriptions/s"))["max_delivery_count"] == 5
    rule = await administrator.entry("/t/subscriptions/s/rules/$Default")
    assert read_rule(rule.description, "$Default").filter == TrueFilter()
    content = '<Filter i:type="SqlFilter"><SqlExpression>a = 1</SqlExpression></Filter>'
    answer = await administrator.call(
        "PUT", "/t/subscriptions/s/rules/r", raw_body(Kind.RULE, content)
    )
    assert answer.status_code == 201
    assert [
        each.title for each in (await administrator.feed("/t/subscriptions/s/rules")).entries
    ] == [
        "$Default",
        "r",
    ]
    content = (
        '<Filter i:type="FalseFilter" /><Action i:type="SqlRuleAction">'
        "<SqlExpression>SET a = 2</SqlExpression></Action>"
    )
    path = "/t/subscriptions/s/rules/r"
    answer = await administrator.call("PUT", path, raw_body(Kind.RULE, content), IF_ANY)
    assert answer.status_code == 200
    changed = read_rule((await administrator.entry(path)).description, "r")
    assert (changed.filter, changed.action) == (FalseFilter(), SqlAction("SET a = 2"))
    assert (await administrator.call("DELETE", path)).status_code == 200
    assert subcode(await administrator.call("GET", path)) == "404/40400"
    assert (await administrator.call("DELETE", "/t/subscriptions/s")).status_code == 200
    assert not (await administrator.feed("/t/subscriptions")).entries
    assert (await administrator.call("DELETE", "/t")).status_code == 200


async def test_a_rule_keeps_the_time_at_which_it_was_added(administrator: Administrator) -> None:
    await administrator.create("/t", Kind.TOPIC)
    await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
    path = "/t/subscriptions/s/rules/r"
    body = raw_body(Kind.RULE, '<Filter i:type="TrueFilter" />')
    administrator.clock.advance(60)
    assert (await administrator.call("PUT", path, body)).status_code == 201
    administrator.clock.advance(60)
    assert (await administrator.call("PUT", path, body, IF_ANY)).status_code == 200

    first, added = [
        datetime.fromisoformat(text_of(each.description, "CreatedAt") or "")
        for each in (await administrator.feed("/t/subscriptions/s/rules")).entries
    ]
    assert (added - first).total_seconds() == 60
    [kept] = [
        each.entity
        for each in await administrator.broker.stores[0].entities()
        if isinstance(each.entity, Subscription)
    ]
    assert [rule.created_at for rule in kept.rules] == [None, round(added.timestamp() * 1000)]


async def test_a_subscription_begins_with_the_rule_that_its_creator_wants(
    administrator: Administrator,
) -> None:
    await administrator.create("/t", Kind.TOPIC)
    rule = (
        '<DefaultRuleDescription><Filter i:type="CorrelationFilter">'
        "<CorrelationId>c</CorrelationId></Filter><Name>mine</Name></DefaultRuleDescription>"
    )
    body = raw_body(Kind.SUBSCRIPTION, rule)
    assert (await administrator.call("PUT", "/t/subscriptions/s", body)).status_code == 201
    [entry] = (await administrator.feed("/t/subscriptions/s/rules")).entries
    assert entry.title == "mine"
    found = read_rule(entry.description, entry.title)
    assert found.filter == CorrelationFilter(correlation_id="c")


@KINDS
@pytest.mark.spec("R7.2")
async def test_a_store_that_is_away_makes_an_entity_limited_and_changes_are_refused(
    administrator: Administrator, is_partitioned: bool
) -> None:
    await administrator.create("/q", Kind.QUEUE, enable_partitioning=is_partitioned)
    [place, *_] = administrator.broker.catalog.record("q").places
    await administrator.broker.stores[place.store].take_offline("drill")
    entry = await administrator.entry("/q")
    assert not read_facts(entry.description).is_available
    assert text_of(entry.description, "EntityAvailabilityStatus") == "Limited"
    [listed] = (await administrator.feed("/$Resources/queues")).entries
    assert not read_facts(listed.description).is_available
    refusals = [
        await administrator.create("/new", Kind.QUEUE),
        await administrator.update("/q", Kind.QUEUE, max_delivery_count=3),
        await administrator.call("DELETE", "/q"),
    ]
    assert [subcode(each) for each in refusals] == ["503/50004"] * 3
    # Where its file is, is for operators: `bendybus store list` shows it.
    assert not [each.text for each in refusals if ".db" in each.text]
    assert not administrator.broker.catalog.has("new")
    assert administrator.broker.queue("q").properties.max_delivery_count == 10


async def test_clients_may_send_back_all_that_they_got(administrator: Administrator) -> None:
    """The Python client updates an entity with the whole of what it was told."""
    await administrator.create("/q", Kind.QUEUE, enable_partitioning=True, max_size_megabytes=2048)
    before = administrator.broker.catalog.record("q").entity
    told = (await administrator.call("GET", "/q")).content
    answer = await administrator.call("PUT", "/q", told, IF_ANY)
    assert answer.status_code == 200
    assert administrator.broker.catalog.record("q").entity == before


async def test_a_whole_description_takes_away_what_it_leaves_out(
    administrator: Administrator,
) -> None:
    await administrator.create("/target", Kind.QUEUE)
    await administrator.create("/q", Kind.QUEUE, forward_to="target", user_metadata="mine")
    partial = await administrator.update("/q", Kind.QUEUE, max_delivery_count=3)
    assert partial.status_code == 200
    properties = administrator.broker.queue("q").properties
    assert (properties.forward_to, properties.user_metadata) == ("target", "mine")
    whole = {**await administrator.properties("/q"), "forward_to": None, "user_metadata": None}
    assert (await administrator.update("/q", Kind.QUEUE, **whole)).status_code == 200
    properties = administrator.broker.queue("q").properties
    assert (properties.forward_to, properties.user_metadata) == (None, None)
    assert properties.max_delivery_count == 3


@pytest.mark.parametrize(
    "written", ["target", "sb://localhost/target", "https://other:443/target/", "sb://h/tar%67et"]
)
async def test_the_target_of_forwarding_is_a_name_or_a_url(
    administrator: Administrator, written: str
) -> None:
    await administrator.create("/target", Kind.QUEUE)
    body = raw_body(Kind.QUEUE, f"<ForwardTo>{written}</ForwardTo>")
    answer = await administrator.call(
        "PUT", "/q", body, {"ServiceBusSupplementaryAuthorization": "SharedAccessSignature sr=x"}
    )
    assert answer.status_code == 201, answer.text
    assert administrator.broker.queue("q").properties.forward_to == "target"
    assert (
        text_of((await administrator.entry("/q")).description, "ForwardTo")
        == "sb://localhost/target"
    )


async def test_authorization_rules_are_given_and_shown_with_their_keys(
    administrator: Administrator,
) -> None:
    rights = frozenset({Right.SEND, Right.LISTEN})
    mine = AccessRule("mine", "a-key-long-enough-to-be-one", rights, "b-key-long-enough-to-be-one")
    unmade = AccessRule("made", None, rights)
    await administrator.create("/q", Kind.QUEUE, authorization_rules=(mine, unmade))
    shown = (await administrator.properties("/q"))["authorization_rules"]
    assert shown[0] == mine
    assert shown[1].name == "made"
    assert shown[1].primary_key != shown[1].secondary_key
    await administrator.update("/q", Kind.QUEUE, max_delivery_count=3)
    assert (await administrator.properties("/q"))["authorization_rules"] == shown
    await administrator.update("/q", Kind.QUEUE, authorization_rules=())
    assert (await administrator.properties("/q"))["authorization_rules"] == ()


async def test_the_namespace_is_described(administrator: Administrator) -> None:
    entry = await administrator.entry("/$namespaceinfo")
    assert entry.kind is Kind.NAMESPACE
    assert text_of(entry.description, "Name") == "sbemulatorns"
    assert text_of(entry.description, "MessagingSKU") == "Standard"


async def test_times_tell_when_an_entity_was_made_and_changed(administrator: Administrator) -> None:
    await administrator.create("/q", Kind.QUEUE)
    administrator.clock.advance(60)
    await administrator.update("/q", Kind.QUEUE, status=EntityStatus.SEND_DISABLED)
    facts = read_facts((await administrator.entry("/q")).description)
    assert facts.created_at is not None
    assert facts.updated_at == facts.created_at + timedelta(seconds=60)


async def test_filters_of_a_topic_are_counted_for_clients_that_know_of_it(
    administrator: Administrator,
) -> None:
    await administrator.create("/t", Kind.TOPIC)
    await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
    for name, content in (
        ("sql", '<Filter i:type="SqlFilter"><SqlExpression>a=1</SqlExpression></Filter>'),
        ("two", '<Filter i:type="CorrelationFilter"><To>x</To></Filter>'),
        ("three", '<Filter i:type="CorrelationFilter"><To>y</To></Filter>'),
    ):
        path = f"/t/subscriptions/s/rules/{name}"
        assert (
            await administrator.call("PUT", path, raw_body(Kind.RULE, content))
        ).status_code == 201
    newest = read_facts((await administrator.entry("/t?api-version=2024-05")).description)
    assert (newest.sql_filter_count, newest.correlation_filter_count) == (1, 2)
    assert newest.subscription_count == 1
    older = (await administrator.entry("/t?api-version=2021-05")).description
    assert older.find("SqlFilterCount") is None


async def test_an_entry_is_addressed_as_the_client_addressed_it(
    administrator: Administrator,
) -> None:
    """The JavaScript client takes names from addresses, and knows the words in one case only."""
    await administrator.create("/T/a", Kind.TOPIC)
    await administrator.create("/T/a/Subscriptions/s", Kind.SUBSCRIPTION)
    for path, address in (
        ("/t/A", "http://localhost/t/A"),
        ("/T%2Fa", "http://localhost/T/a"),
        ("/T/a/Subscriptions/s", "http://localhost/T/a/Subscriptions/s"),
        ("/T/a/subscriptions/S", "http://localhost/T/a/subscriptions/S"),
        ("/T/a/Subscriptions/s/Rules/$Default", None),
    ):
        answer = await administrator.call("GET", path)
        shown = parse(answer.content).text_of("id")
        assert shown == f"{address or 'http://localhost' + path}?api-version=2021-05"
    answer = await administrator.call("GET", "/T/a/Subscriptions/s/Rules/")
    [entry] = parse(answer.content).find_all("entry")
    listed = "http://localhost/T/a/Subscriptions/s/Rules/$Default?api-version=2021-05"
    assert entry.text_of("id") == listed


async def test_lists_come_in_pages_in_the_order_of_names(administrator: Administrator) -> None:
    for number in range(5):
        await administrator.create(f"/q{number}", Kind.QUEUE)
    names: list[str] = []
    skip: int | None = 0
    while skip is not None:
        page = await administrator.feed(f"/$Resources/Queues?$skip={skip}&$top=2")
        names += [entry.title for entry in page.entries]
        skip = page.next_skip
    assert names == [f"q{number}" for number in range(5)]
    beyond = await administrator.feed("/$resources/queues?$skip=100")
    assert (beyond.entries, beyond.next_skip) == ((), None)
    assert not (await administrator.feed("/$Resources/topics")).entries


def etag(answer: httpx.Response) -> str:
    return answer.headers["etag"]


async def test_an_entity_that_changed_meanwhile_is_not_changed_by_a_precise_update(
    administrator: Administrator,
) -> None:
    seen = etag(await administrator.create("/q", Kind.QUEUE))
    await administrator.update("/q", Kind.QUEUE, max_delivery_count=3)
    body = raw_body(Kind.QUEUE, "<MaxDeliveryCount>4</MaxDeliveryCount>")
    assert subcode(await administrator.call("PUT", "/q", body, {"If-Match": seen})) == "412/41200"
    assert administrator.broker.queue("q").properties.max_delivery_count == 3
    newest = etag(await administrator.call("GET", "/q"))
    assert (await administrator.call("PUT", "/q", body, {"If-Match": newest})).status_code == 200
    assert administrator.broker.queue("q").properties.max_delivery_count == 4


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/q", Kind.QUEUE),
        ("/t/subscriptions/s", Kind.SUBSCRIPTION),
        ("/t/subscriptions/s/rules/$Default", Kind.SUBSCRIPTION),
    ],
)
async def test_an_entity_that_changed_meanwhile_is_not_deleted_by_a_precise_delete(
    administrator: Administrator, path: str, kind: Kind
) -> None:
    await administrator.create("/t", Kind.TOPIC)
    entity = path.partition("/rules/")[0]
    seen = etag(await administrator.create(entity, kind))
    await administrator.update(entity, kind, max_delivery_count=3)
    assert subcode(await administrator.call("DELETE", path, b"", {"If-Match": seen})) == "412/41200"
    newest = etag(await administrator.call("GET", path))
    assert (await administrator.call("DELETE", path, b"", {"If-Match": newest})).status_code == 200
    assert (await administrator.call("GET", path)).status_code == 404


@pytest.mark.parametrize("second", ["PUT", "DELETE"])
async def test_of_two_precise_changes_of_a_rule_at_once_one_is_refused(
    administrator: Administrator, second: str
) -> None:
    await administrator.create("/t", Kind.TOPIC)
    await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
    path = "/t/subscriptions/s/rules/$Default"
    precise = {"If-Match": etag(await administrator.call("GET", path))}
    body = raw_body(
        Kind.RULE, '<Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression></Filter>'
    )
    answers = await asyncio.gather(
        administrator.call("PUT", path, body, precise),
        administrator.call(second, path, body if second == "PUT" else b"", precise),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412]


async def test_parameters_of_filters_keep_their_types(administrator: Administrator) -> None:
    await administrator.create("/t", Kind.TOPIC)
    await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
    values = (
        '<Value xmlns:x="http://www.w3.org/2001/XMLSchema" i:type="x:dateTime">'
        "2020-07-05T11:12:13</Value>"
    )
    content = (
        '<Filter i:type="SqlFilter"><SqlExpression>sys.EnqueuedTimeUtc &gt; @from</SqlExpression>'
        f"<Parameters><KeyValueOfstringanyType><Key>@from</Key>{values}"
        "</KeyValueOfstringanyType></Parameters></Filter>"
    )
    path = "/t/subscriptions/s/rules/r"
    assert (await administrator.call("PUT", path, raw_body(Kind.RULE, content))).status_code == 201
    found = read_rule((await administrator.entry(path)).description, "r").filter
    assert isinstance(found, SqlFilter)
    assert found.parameters["@from"] == 1_593_947_533_000
    assert "2020-07-05T11:12:13</Value>" in (await administrator.call("GET", path)).text


async def test_two_who_change_parts_of_an_entity_at_once_both_have_their_way(
    administrator: Administrator,
) -> None:
    await administrator.create("/q", Kind.QUEUE)
    parts: list[dict[str, Any]] = [
        {"max_delivery_count": 3},
        {"user_metadata": "mine"},
        {"enable_batched_operations": False},
    ]
    answers = await asyncio.gather(
        *(administrator.update("/q", Kind.QUEUE, **part) for part in parts)
    )
    assert [answer.status_code for answer in answers] == [200] * 3
    properties = administrator.broker.queue("q").properties
    assert properties.max_delivery_count == 3
    assert properties.user_metadata == "mine"
    assert not properties.enable_batched_operations


async def test_what_is_deleted_while_it_is_counted_is_shown_as_it_was(
    administrator: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await administrator.create("/t", Kind.TOPIC)
    catalog = administrator.broker.catalog
    tallying = catalog.holdings.tallying
    count = tallying.tallies

    async def delete_first(wanted: Mapping[int, Sequence[QueueNumber]]) -> Tallies:
        monkeypatch.setattr(tallying, "tallies", count)
        await delete(catalog, "t")
        return await count(wanted)

    monkeypatch.setattr(tallying, "tallies", delete_first)
    [entry] = (await administrator.feed("/$Resources/topics?api-version=2024-05")).entries
    assert entry.title == "t"
    assert not catalog.has("t")
