"""Rules by request and response: described lists, exact codes, and everything refused in form."""

import asyncio
import uuid
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import Described, Int, Timestamp, Ulong
from bendybus.model.access import AccessRule, Right
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.requesting import Answered, Requests, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served, serving

TOPICS = pytest.mark.parametrize("topic", ["news", "feed"])
RED = {"sql-filter": {"expression": "colour = 'red'"}}
NO_ACTION = Described(0x13700000005, [])

pytestmark = [pytest.mark.spec("R4"), pytest.mark.spec("R7.4")]


async def _rules(client: WireClient, topic: str = "news") -> Requests:
    return await requests_to(client, f"{topic}/Subscriptions/ruled/$management", handle=20)


async def _add(requests: Requests, name: object, description: object) -> Answered:
    body = {"rule-name": name, "rule-description": description}
    return await requests.ask("com.microsoft:add-rule", body)


async def _listed(requests: Requests, **body: object) -> list[Any]:
    response = await requests.ask("com.microsoft:enumerate-rules", body)
    if response.status == 204:
        return []
    assert response.status == 200
    assert isinstance(response.body["rules"], list)
    return [each["rule-description"] for each in response.body["rules"]]


def _condition(response: Answered) -> tuple[int, str]:
    return response.status, response.properties["errorCondition"]


@TOPICS
async def test_a_rule_holds_for_what_is_sent_after_it_was_added_and_before_it_is_removed(
    served: Served, topic: str
) -> None:
    client = await served.client()
    requests, sender = await _rules(client, topic), await client.sender(topic)
    red = message(properties={"colour": "red"})
    await sender.sent(red, 0)
    assert (await _add(requests, "red", RED)).status == 200
    await sender.sent(red, 1)
    await sender.sent(message(properties={"colour": "blue"}), 2)
    assert await served.count(f"{topic}/Subscriptions/ruled") == 1
    response = await requests.ask("com.microsoft:remove-rule", {"rule-name": "RED"})
    assert response.status == 200
    await sender.sent(red, 3)

    assert await served.count(f"{topic}/Subscriptions/ruled") == 1
    assert await served.count(f"{topic}/Subscriptions/all") == 4


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("description", "filter_code", "filter_fields", "action"),
    [
        (RED, 0x1370000006, ["colour = 'red'", 20], NO_ACTION),
        ({"true-filter": {}, "sql-rule-action": None}, 0x1370000007, [], NO_ACTION),
        ({"false-filter": {}}, 0x1370000008, [], NO_ACTION),
        ({}, 0x1370000007, [], NO_ACTION),
        (
            {**RED, "sql-rule-action": {"expression": "SET a = 1"}},
            0x1370000006,
            ["colour = 'red'", 20],
            Described(0x13700000006, ["SET a = 1", 20]),
        ),
        (
            {
                "correlation-filter": {
                    "correlation-id": "c",
                    "message-id": "m",
                    "to": "t",
                    "reply-to": "r",
                    "label": "l",
                    "session-id": "s",
                    "reply-to-session-id": "rs",
                    "content-type": "ct",
                    "properties": {"a": 1, "b": True, "c": "x", "d": 0.5, "e": uuid.UUID(int=7)},
                }
            },
            0x1370000009,
            [
                *("c", "m", "t", "r", "l", "s", "rs", "ct"),
                {"a": 1, "b": True, "c": "x", "d": 0.5, "e": uuid.UUID(int=7)},
            ],
            NO_ACTION,
        ),
        (
            # As the JavaScript client sends it: what is not set is null.
            {"correlation-filter": {"label": "l", "to": None, "properties": None}},
            0x1370000009,
            [None, None, None, None, "l", None, None, None, {}],
            NO_ACTION,
        ),
    ],
    ids=["sql", "true", "false", "none", "action", "correlation", "nulls"],
)
async def test_a_rule_is_listed_in_the_codes_that_clients_compare(
    served: Served,
    description: object,
    filter_code: int,
    filter_fields: list[object],
    action: Described,
) -> None:
    requests = await _rules(await served.client())
    assert (await _add(requests, "R-1", description)).status == 200

    [listed] = await _listed(requests, top=Int(10), skip=Int(0))

    assert listed == Described(
        0x13700000004, [Described(filter_code, filter_fields), action, "R-1"]
    )
    for each in (listed, listed.value[0], listed.value[1]):
        assert type(each.descriptor) is Ulong
    assert type(listed.value[2]) is str


async def test_rules_are_listed_in_pages_until_there_are_none(served: Served) -> None:
    requests = await _rules(await served.client())
    for number in range(5):
        await _add(requests, f"r{number}", RED)

    pages = [await _listed(requests, top=Int(2), skip=Int(skip)) for skip in range(0, 8, 2)]

    assert [[each.value[2] for each in page] for page in pages] == [
        ["r0", "r1"],
        ["r2", "r3"],
        ["r4"],
        [],
    ]


@pytest.mark.spec("R8.1")
async def test_a_subscription_without_rules_lists_none(served: Served) -> None:
    requests = await _rules(await served.client())
    response = await requests.ask("com.microsoft:enumerate-rules", {"top": Int(1), "skip": Int(0)})

    assert response.status == 204
    assert response.body == {"rules": []}


@pytest.mark.spec("R8.1")
@TOPICS
async def test_a_second_rule_of_a_name_is_refused_and_changes_nothing(
    served: Served, topic: str
) -> None:
    requests = await _rules(await served.client(), topic)
    await _add(requests, "red", RED)
    response = await _add(requests, "Red", {"true-filter": {}})

    assert _condition(response) == (409, "com.microsoft:entity-already-exists")
    assert len(await _listed(requests)) == 1


@pytest.mark.spec("R8.1")
async def test_a_rule_that_is_not_there_cannot_be_removed(served: Served) -> None:
    requests = await _rules(await served.client())
    response = await requests.ask("com.microsoft:remove-rule", {"rule-name": "none"})

    assert _condition(response) == (404, "amqp:not-found")
    text = response.properties["statusDescription"]
    assert "The messaging entity 'sbemulatorns:Topic:news|ruled|none' could not be found." in text


@pytest.mark.parametrize(
    ("name", "description", "condition", "text"),
    [
        ("r", {"sql-filter": {"expression": "a = = 1"}}, "argument-error", "character 5"),
        ("r", {"sql-filter": {"expression": "a = 'x"}}, "argument-error", "character 5"),
        ("r", {"sql-filter": {"expression": ""}}, "argument-error", "needed"),
        ("r", {"sql-filter": {"expression": "a" * 1025}}, "argument-out-of-range", "1024"),
        ("r", {"sql-filter": {}}, "argument-error", "needed"),
        ("r", {"sql-filter": "a = 1"}, "argument-error", "map"),
        ("r", {"sql-filter": {"expression": 5}}, "argument-error", "string"),
        ("r", {"correlation-filter": {"label": None}}, "argument-error", "at least one"),
        ("r", {"correlation-filter": {"label": 5}}, "argument-error", "string"),
        ("r", {"correlation-filter": {"properties": {5: 5}}}, "argument-error", "keys"),
        ("r", {"correlation-filter": {"properties": {"a": []}}}, "argument-error", "equals"),
        ("r", {**RED, "true-filter": {}}, "argument-error", "one filter"),
        (
            "r",
            {**RED, "sql-rule-action": {"expression": "SET sys.SequenceNumber = 1"}},
            "argument-error",
            "read-only",
        ),
        ("r", {**RED, "sql-rule-action": {"expression": "SET"}}, "argument-error", "character 4"),
        ("r", "x", "argument-error", "rule-description"),
        (None, RED, "argument-error", "rule-name"),
        (5, RED, "argument-error", "rule-name"),
        ("no/slash", RED, "argument-error", "no/slash"),
        ("n" * 51, RED, "argument-out-of-range", "50"),
    ],
)
async def test_a_rule_that_means_nothing_is_refused_with_the_reason(
    served: Served, name: object, description: object, condition: str, text: str
) -> None:
    requests = await _rules(await served.client())
    response = await _add(requests, name, description)

    assert _condition(response) == (400, f"com.microsoft:{condition}")
    assert text in response.properties["statusDescription"]
    assert await _listed(requests) == []


@pytest.mark.parametrize("body", [{"top": Int(0)}, {"skip": Int(-1)}, {"top": "x"}])
async def test_a_page_must_have_a_size(served: Served, body: dict[str, object]) -> None:
    requests = await _rules(await served.client())
    response = await requests.ask("com.microsoft:enumerate-rules", body)

    assert response.status == 400


@pytest.mark.parametrize(
    "node", ["orders", "news", "news/Subscriptions/all/$DeadLetterQueue", "parts"]
)
@pytest.mark.parametrize("operation", ["add-rule", "remove-rule", "enumerate-rules"])
async def test_only_a_subscription_has_rules(served: Served, node: str, operation: str) -> None:
    requests = await requests_to(await served.client(), f"{node}/$management")
    body = {"rule-name": "r", "rule-description": RED}
    response = await requests.ask(f"com.microsoft:{operation}", body)

    assert _condition(response) == (400, "amqp:not-allowed")


@pytest.mark.spec("R8.1")
async def test_rules_need_the_right_to_manage(tmp_path: Any) -> None:
    listener = AccessRule("listener", "a-key", frozenset({Right.LISTEN, Right.SEND}))
    async with serving(tmp_path, rules=(listener,)) as served:
        client = await served.stranger()
        await client.log_in("PLAIN", b"\0listener\0a-key")
        await client.begin()
        requests = await _rules(client)
        response = await _add(requests, "red", RED)

        assert _condition(response) == (401, "amqp:unauthorized-access")
        assert "'Manage' claim(s) are required" in response.properties["statusDescription"]


@pytest.mark.spec("R7.1")
@TOPICS
async def test_rules_are_there_after_a_restart(tmp_path: Any, topic: str) -> None:
    async with serving(tmp_path) as served:
        requests = await _rules(await served.client(), topic)
        properties = {"when": Timestamp(5), "n": 7}
        await _add(requests, "red", RED)
        await _add(requests, "gone", RED)
        await _add(requests, "seven", {"correlation-filter": {"properties": properties}})
        await requests.ask("com.microsoft:remove-rule", {"rule-name": "gone"})
        before = await _listed(requests)
    async with serving(tmp_path) as served:
        client = await served.client()
        assert await _listed(await _rules(client, topic)) == before
        sender = await client.sender(topic)
        matching = message(properties={"when": Timestamp(5), "n": 7})
        assert await sender.sent(matching, 0) == Accepted()
        assert await served.count(f"{topic}/Subscriptions/ruled") == 1


@pytest.mark.spec("R7.1")
async def test_with_a_store_away_rules_stay_as_they_are(served: Served) -> None:
    requests = await _rules(await served.client())
    await _add(requests, "red", RED)
    await served.broker.stores[1].take_offline("drill")
    response = await _add(requests, "blue", RED)
    assert _condition(response) == (503, "com.microsoft:server-busy")
    response = await requests.ask("com.microsoft:remove-rule", {"rule-name": "red"})
    assert _condition(response) == (503, "com.microsoft:server-busy")
    await served.broker.stores[1].bring_online()

    assert [each.value[2] for each in await _listed(requests)] == ["red"]
    assert (await _add(requests, "blue", RED)).status == 200


@pytest.mark.spec("R3.6")
@TOPICS
async def test_rules_may_change_while_messages_flow(served: Served, topic: str) -> None:
    """Between two answers the rule is there or not; what was accepted in between decides."""
    client, other = await served.client(), await served.client()
    requests, sender = await _rules(other, topic), await client.sender(topic)
    sent, marks = 0, []

    async def send_on(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            payload = message(b"%d" % sent, properties={"colour": "red"}, partition_key="k")
            assert await sender.sent(payload, sent) == Accepted()
            sent += 1

    for _ in range(3):
        flowing = asyncio.create_task(send_on(30))
        await _add(requests, "red", RED)
        added = sent
        await flowing
        marks.append((added, sent))
        removing = asyncio.create_task(send_on(30))
        await requests.ask("com.microsoft:remove-rule", {"rule-name": "red"})
        await removing
    receiver = await client.receiver(f"{topic}/Subscriptions/ruled")
    count = await served.count(f"{topic}/Subscriptions/ruled")
    receiver.flow(link_credit=count)
    found = [int(see((await receiver.receive()).payload).body) for _ in range(count)]

    assert found == sorted(set(found))
    for added, ended in marks:
        assert set(range(added + 1, ended)) <= set(found)
    assert await served.count(f"{topic}/Subscriptions/all") == sent


async def test_an_action_makes_a_message_that_clients_can_read(served: Served) -> None:
    client = await served.client()
    requests, sender = await _rules(client), await client.sender("news")
    action = "SET sys.Label = 'new'; SET n = n + 1; SET sys.To = sys.MessageId; REMOVE gone"
    await _add(requests, "r", {"true-filter": {}, "sql-rule-action": {"expression": action}})
    footer = encode_section(SectionCode.FOOTER, {"f": 1})
    payload = message(b"body", label="old", properties={"n": Int(1), "gone": "x"}) + footer
    assert await sender.sent(payload, 0) == Accepted()
    receiver = await client.receiver("news/Subscriptions/ruled")
    receiver.flow(link_credit=1)
    delivered = (await receiver.receive()).payload
    seen = see(delivered)

    assert seen.body == b"body"
    assert delivered.endswith(footer)
    assert seen.application_properties == {"n": 2}
    assert seen.properties[:4] == ["an-id", None, "an-id", "new"]
    assert seen.annotations["x-opt-enqueue-sequence-number"] == 1
