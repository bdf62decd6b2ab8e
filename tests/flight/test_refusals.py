"""Everything that the bulk door refuses: what it says, and that nobody sees more than they may."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pyarrow import flight

from bendybus.broker.access_keys import new_key
from bendybus.client import errors
from bendybus.client.bulk_values import Place, Range
from bendybus.flight.actions import ACTIONS
from bendybus.flight.desk import found_for
from bendybus.flight.refusals import KINDS
from bendybus.flight.ticket import read_ticket
from bendybus.model.access import AccessRule, Claims, Right
from bendybus.model.actions import Action
from bendybus.model.addresses import Address
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import ArgumentInvalid, EntityNotFound, every_refusal
from bendybus.testing.local_broker import ROOT_RULE
from tests.flight.bulk_bus import ENTITIES, BareClient, BulkBus, aside, bulk_bus, plain

LISTEN = AccessRule("listen", new_key(), frozenset({Right.LISTEN}))
SEND = AccessRule("send", new_key(), frozenset({Right.SEND}))
OWN = AccessRule("own", new_key(), frozenset({Right.LISTEN}))
ORDERS = json.dumps({"entity": "orders"}).encode()


@pytest_asyncio.fixture
async def bus(tmp_path: Path) -> AsyncIterator[BulkBus]:
    own = Queue("guarded", QueueProperties(authorization_rules=(OWN,)))
    rules = (ROOT_RULE, LISTEN, SEND)
    async with bulk_bus(tmp_path, entities=(*ENTITIES, own), rules=rules) as bus:
        yield bus


def test_every_kind_that_is_chosen_is_of_a_refusal_that_there_is() -> None:
    assert set(KINDS) <= {refusal.code for refusal in every_refusal()}


# Names


async def test_an_unknown_entity_is_refused_with_what_was_meant(bus: BulkBus) -> None:
    for place, text in (
        (Place("order"), "did you mean orders?"),
        (Place("news", "al"), "did you mean all?"),
        (Place("nws", "all"), "did you mean news?"),
        (Place("orders", "all"), "'orders' is a queue and has no subscriptions"),
        (Place("zzzzzzzz"), "it may be feed, guarded, news, orders, parts, visits"),
    ):
        with pytest.raises(errors.EntityNotFound) as refused:
            await aside(bus.client().describe, place)
        assert text in str(refused.value)
        with pytest.raises(errors.EntityNotFound):
            await bus.rows(place, ranges=[Range(0, 0, 1)])


async def test_a_topic_itself_has_no_messages_to_read(bus: BulkBus) -> None:
    with pytest.raises(errors.InvalidOperation, match="receive them from one of its subscriptions"):
        await bus.rows(Place("news"))


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"columns": ["bodi"]}, "no column 'bodi'; did you mean body?"),
        ({"columns": ["body", "body"]}, "names one twice"),
        ({"columns": "body"}, "'columns' must be a list"),
        ({"column": []}, "no field 'column'; did you mean columns?"),
        ({"states": ["activ"]}, "no state 'activ'; did you mean active?"),
        ({"filters": [["bod", "=", "x"]]}, "'bod' cannot be filtered by"),
        ({"filters": [["subject", "like", "x"]]}, "'like' is no operator"),
        ({"filters": [["subject", "=", 1]]}, "compared with a text"),
        ({"filters": [["enqueued_time", ">", "today"]]}, "a time with its zone"),
        ({"filters": [["enqueued_time", ">", "2026-11-16T08:30:00"]]}, "a time with its zone"),
        ({"filters": [["sequence_number", "in", 3]]}, "'in' takes a list"),
        ({"filters": [["subject"]]}, "a column, an operator and a value"),
        ({"batch_rows": 0}, "'batch_rows' must be a whole number from 1 to"),
        ({"ranges": [{"fragment": 0, "from": -1, "until": 9}]}, "'ranges[0].from' must be"),
        ({"ranges": [{"fragment": 0, "from": 1}]}, "'ranges[0].until' must be"),
        ({"ranges": [3]}, "must be a JSON object"),
        ({"entity": None}, "'entity' must be a text"),
        ({"entity": 3}, "'entity' must be a text; it is 3"),
        ({"entity": "a\0b"}, "control characters"),
        ({"entity": "\ud800"}, "control characters"),
        ({"entity": "x" * 3000}, "at most 2048 characters"),
        ({"sub_queue": "deadleter"}, "is none; did you mean deadletter?"),
        ({"skip_offline": 1}, "must be true or false"),
        ({"positions": []}, "go with a 'reader'"),
        ({"reader": "r", "token": "t"}, "'positions' must be a list"),
        ({"reader": "r", "positions": []}, "'token' must be a text"),
        ({"reader": "r", "token": "t", "positions": [], "ranges": []}, "not both"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_with_what_would_be_right(
    wish: dict[str, Any], text: str
) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        read_ticket(json.dumps({"entity": "orders", **wish}).encode())
    assert text in str(refused.value)


# Bytes that mean nothing


@pytest.mark.parametrize(
    ("ticket", "text"),
    [
        (b"", "must be a JSON object"),
        (b"\xff\xfe", "must be a JSON object"),
        (b"[]", "The ticket must be a JSON object"),
        (b"{", "must be a JSON object"),
        (b"[" * 100_000, "must be a JSON object"),
        (b"{}", "'entity' must be a text"),
        (b"9" * 10_000, "must be a JSON object"),
        (b" " * (5 * 1024 * 1024), "more than 4194304 bytes"),
    ],
)
def test_a_ticket_that_is_none_is_refused(ticket: bytes, text: str) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        read_ticket(ticket)
    assert text in str(refused.value)


async def test_refusals_reach_the_client_and_the_broker_goes_on(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint)
    for ticket in (b"\xff", b'{"entity": "\\ud800"}', b'{"entity": "orders", "\\ud800": 1}'):
        with pytest.raises(flight.FlightServerError):
            await aside(bare.get, ticket)
    with pytest.raises(errors.ArgumentInvalid, match="no column 'bodi'; did you mean body"):
        await bus.rows(Place("orders"), columns=["bodi"])
    with pytest.raises(errors.ArgumentInvalid, match="no fragment 1"):
        await bus.rows(Place("orders"), ranges=[Range(1, 0, 9)])
    assert await bus.rows(Place("orders")) == []


async def test_an_unknown_action_is_refused_with_what_was_meant(bus: BulkBus) -> None:
    with pytest.raises(flight.FlightServerError, match="did you mean describe"):
        await aside(BareClient(bus.endpoint).act, "descripe", ORDERS)


async def test_every_action_refuses_a_field_that_it_does_not_know(bus: BulkBus) -> None:
    body = json.dumps({"entity": "orders", "entitty": "x"}).encode()
    for action in ACTIONS:
        with pytest.raises(flight.FlightServerError, match="no field 'entitty'; did you mean"):
            await aside(BareClient(bus.endpoint).act, action, body)


async def test_the_actions_are_listed_with_what_they_do(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint)
    options = flight.FlightCallOptions(headers=bare.headers)
    listed = await aside(bare.client.list_actions, options)
    assert {each.type for each in listed} == set(ACTIONS)
    assert all(each.description for each in listed)


async def test_calls_that_are_not_served_are_refused(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint)
    options = flight.FlightCallOptions(headers=bare.headers)
    with pytest.raises(flight.FlightServerError, match="serves DoGet"):
        await aside(lambda: list(bare.client.list_flights(options=options)))


# Keys and rights


async def test_a_call_without_a_token_is_refused(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint)
    bare.headers = []
    with pytest.raises(flight.FlightUnauthenticatedError, match="MissingToken"):
        await aside(bare.act, "describe", ORDERS)
    with pytest.raises(flight.FlightUnauthenticatedError, match="MissingToken"):
        await aside(bare.get, ORDERS)


async def test_a_token_that_is_none_is_refused(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint)
    for header in (b"nonsense", b"Bearer x", b"SharedAccessSignature sr=x"):
        bare.headers = [(b"authorization", header)]
        with pytest.raises(flight.FlightUnauthenticatedError):
            await aside(bare.act, "describe", ORDERS)


async def test_a_wrong_key_is_refused_and_says_nothing_of_the_entity(bus: BulkBus) -> None:
    wrong = AccessRule(ROOT_RULE.name, new_key(), ROOT_RULE.rights)
    for place in (Place("orders"), Place("nowhere")):
        with pytest.raises(errors.Unauthorized, match="invalid signature"):
            await aside(bus.client(wrong).describe, place)


async def test_a_token_for_another_entity_is_refused(bus: BulkBus) -> None:
    bare = BareClient(bus.endpoint, entity="parts")
    with pytest.raises(flight.FlightUnauthenticatedError, match="InvalidAudience"):
        await aside(bare.act, "describe", ORDERS)


async def test_reading_needs_listen(bus: BulkBus) -> None:
    await bus.send("orders", plain([b"x"]))
    with pytest.raises(errors.Unauthorized, match="'Listen' claim"):
        await aside(lambda: list(bus.client(SEND).read(Place("orders"))))
    assert len(await aside(lambda: list(bus.client(LISTEN).read(Place("orders"))))) == 1


async def test_whoever_reads_or_writes_may_see_what_an_entity_is_like(bus: BulkBus) -> None:
    for rule in (LISTEN, SEND, ROOT_RULE):
        assert (await aside(bus.client(rule).describe, Place("orders"))).entity == "orders"


async def test_a_key_of_one_entity_opens_no_other_and_learns_no_names(bus: BulkBus) -> None:
    assert (await aside(bus.client(OWN).describe, Place("guarded"))).entity == "guarded"
    with pytest.raises(errors.Unauthorized):
        await aside(bus.client(OWN).describe, Place("orders"))
    with pytest.raises(errors.Unauthorized):
        await aside(bus.client(OWN).describe, Place("order"))


async def test_who_has_a_role_on_one_entity_learns_no_names_of_others(bus: BulkBus) -> None:
    rights = {"order": frozenset({Right.LISTEN})}
    one = Claims("somebody", frozenset(), "", datetime.max.replace(tzinfo=UTC), rights)
    everything = Claims("somebody", frozenset(Right), "", datetime.max.replace(tzinfo=UTC))
    for claims, is_told in ((one, False), (everything, True)):
        with pytest.raises(EntityNotFound) as refused:
            found_for(claims, bus.broker.catalog, Address("order"), Action.READ_MESSAGES)
        assert ("orders?" in str(refused.value)) is is_told


async def test_a_refusal_can_be_found_in_the_log(
    bus: BulkBus, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), pytest.raises(flight.FlightServerError) as refused:
        await aside(BareClient(bus.endpoint).act, "descripe", ORDERS)
    told = json.loads(refused.value.extra_info)
    assert told["code"] == "argument-invalid"
    assert told["retryable"] is False
    [record] = [each for each in caplog.records if "descripe" in each.getMessage()]
    assert str(vars(record)["tracking_id"]) == told["tracking_id"]
