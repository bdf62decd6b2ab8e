"""What REST says of messages, both ways, and what other doors make of it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import Described, Symbol, Timestamp
from bendybus.broker.send import send
from bendybus.content.incoming_message import read_message
from bendybus.model.ids import FragmentIndex
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker, serving_http
from tests.http.rest_client import ENTITIES, RULES, RestClient, properties_of


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES[:2], ManualClock(), stores=1) as broker:
        yield broker


@pytest.fixture
async def client(broker: LocalBroker) -> AsyncIterator[RestClient]:
    async with serving_http(broker, RULES) as server, RestClient(server.port) as client:
        yield client


SAID: dict[str, Any] = {
    "ContentType": "text/x-said",
    "CorrelationId": "c",
    "Label": "läbel",
    "MessageId": "m",
    "PartitionKey": "k",
    "ReplyTo": "r",
    "ReplyToSessionId": "rs",
    "To": "t",
    "ViaPartitionKey": "v",
}


@pytest.mark.parametrize("entity", ["plain", "wide/parts"])
async def test_what_the_sender_says_is_what_the_receiver_reads(
    client: RestClient, entity: str
) -> None:
    await client.send(entity, b"x", broker=SAID | {"TimeToLive": 90.5, "State": "Nonsense"})
    answer = await client.take(entity)
    properties = properties_of(answer)
    assert {name: properties[name] for name in SAID} == SAID
    assert properties["TimeToLive"] == 90.5
    assert properties["State"] == "Active"
    assert properties["EnqueuedTimeUtc"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    assert properties["SequenceNumber"] == properties["EnqueuedSequenceNumber"] > 0
    assert answer.headers["content-type"] == "text/x-said"


async def test_what_nobody_said_has_the_services_defaults(client: RestClient) -> None:
    await client.send("plain")
    properties = properties_of(await client.take("plain"))
    assert properties["TimeToLive"] == 922337203685.47754
    assert re.fullmatch("[0-9a-f]{32}", properties["MessageId"])
    assert "Label" not in properties


async def test_no_two_messages_get_the_same_id(client: RestClient) -> None:
    batch = json.dumps([{"Body": ""}] * 600).encode()
    await client.send("plain", batch, {"Content-Type": "application/vnd.microsoft.servicebus.json"})
    ids = {properties_of(await client.take("plain"))["MessageId"] for _ in range(600)}
    assert len(ids) == 600


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({"TimeToLive": 10}, 10),
        ({"TimeToLive": "10"}, 10),
        ({"TimeToLive": 0.0001}, 0.001),
        ({"TimeToLive": 10_000_000}, 10_000_000),
        ({"TimeToLive": 922337203685.47754}, 922337203685.47754),
        ({"TimeToLiveTimeSpan": "00:01:30"}, 90),
        ({"TimeToLiveTimeSpan": "1.02:03:04.5"}, 93784.5),
        ({"TimeToLiveTimeSpan": "PT1M"}, 60),
    ],
)
async def test_a_time_to_live_is_read_in_every_form(
    client: RestClient, said: dict[str, Any], seconds: float
) -> None:
    await client.send("plain", broker=said)
    assert properties_of(await client.take("plain"))["TimeToLive"] == seconds


@pytest.mark.parametrize(
    "moment", ["Fri, 15 Jan 2027 08:00:30 GMT", "2027-01-15T08:00:30Z", "2027-01-15T08:00:30"]
)
async def test_a_scheduled_message_comes_when_its_time_has_come(
    client: RestClient, broker: LocalBroker, moment: str
) -> None:
    assert isinstance(broker.clock, ManualClock)
    await client.send("plain", broker={"ScheduledEnqueueTimeUtc": moment})
    assert (await client.take("plain")).status_code == 204
    broker.clock.advance(30)
    await broker.sweep.sweep_all()
    properties = properties_of(await client.take("plain"))
    assert properties["ScheduledEnqueueTimeUtc"] == "Fri, 15 Jan 2027 08:00:30 GMT"


@pytest.mark.parametrize(
    ("given", "came"),
    [
        ('"text"', '"text"'),
        ("High", '"High"'),
        ("12345,ABC", '"12345,ABC"'),
        ('"say \\"hi\\""', '"say \\"hi\\""'),
        ('"C:\\dir"', '"C:\\\\dir"'),
        ("42", "42"),
        ("-7", "-7"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("False", "false"),
        ("123456789012345678901234567890", '"123456789012345678901234567890"'),
        ("", '""'),
    ],
)
async def test_a_header_is_a_property_with_a_type(
    client: RestClient, given: str, came: str
) -> None:
    await client.send("plain", headers={"Priority": given})
    assert (await client.take("plain")).headers["Priority"] == came


async def test_names_of_properties_keep_their_case_and_values_their_language(
    client: RestClient,
) -> None:
    await client.call("POST", "/plain/messages", headers={"CustomerName": '"Zoë"'})
    answer = await client.take("plain")
    assert ("CustomerName", '"Zo\\u00eb"') in [
        (name.decode(), value.decode()) for name, value in answer.headers.raw
    ]


async def test_headers_of_the_request_itself_are_no_properties(client: RestClient) -> None:
    await client.send("plain", headers={"x-ms-retrypolicy": "NoRetry", "Cache-Control": "no-cache"})
    answer = await client.take("plain")
    assert set(answer.headers) == {"server", "date", "content-length", "brokerproperties"}


async def test_properties_that_cannot_be_headers_come_together_in_one(client: RestClient) -> None:
    odd = {"two words": 1, "Content-Length": 5, "größe": "ü", "transfer-encoding": "chunked"}
    batch = json.dumps([{"Body": "x", "UserProperties": odd | {"fine": None}}])
    await client.send(
        "plain", batch.encode(), {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    )
    answer = await client.take("plain")
    assert answer.content == b"x"
    assert json.loads(answer.headers["x-bendybus-user-properties"]) == odd
    assert answer.headers["fine"] == "null"


async def test_more_properties_than_clients_take_as_headers_come_together(
    client: RestClient,
) -> None:
    many = {f"p{number}": number for number in range(200)}
    batch = json.dumps([{"Body": "x", "UserProperties": many}])
    await client.send(
        "plain", batch.encode(), {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    )
    answer = await client.take("plain")
    others = json.loads(answer.headers["x-bendybus-user-properties"])
    headers = {name: int(answer.headers[name]) for name in many if name in answer.headers}
    assert (headers | others, len(headers)) == (many, 64)


@pytest.mark.parametrize(
    ("body", "content", "kind"),
    [
        (encode_section(SectionCode.AMQP_VALUE, "text"), b"text", "text/plain; charset=utf-8"),
        (encode_section(SectionCode.AMQP_VALUE, b"\x00\x01"), b"\x00\x01", None),
        (encode_section(SectionCode.AMQP_VALUE, None), b"null", "application/json"),
        (
            encode_section(SectionCode.AMQP_VALUE, {"a": [1, True, Timestamp(0)]}),
            b'{"a": [1, true, "1970-01-01T00:00:00+00:00"]}',
            "application/json",
        ),
        (
            encode_section(SectionCode.AMQP_SEQUENCE, [1]) * 2,
            b"[1, 1]",
            "application/json",
        ),
        (encode_section(SectionCode.DATA, b"a") * 2, b"aa", None),
        (b"", b"", None),
    ],
)
async def test_every_body_of_amqp_has_a_form_over_http(
    client: RestClient, broker: LocalBroker, body: bytes, content: bytes, kind: str | None
) -> None:
    message = read_message(encode_properties(["id"]) + body)
    await send(broker.queue("plain"), [message], FragmentIndex(0), broker.clock)
    answer = await client.take("plain")
    assert (answer.content, answer.headers.get("content-type")) == (content, kind)


async def test_every_type_of_amqp_has_a_form_in_a_header(
    client: RestClient, broker: LocalBroker
) -> None:
    user = {
        "when": Timestamp(NOON),
        "span": Described(Symbol("com.microsoft:timespan"), 5),
        "moment": Described(Symbol("com.microsoft:datetime-offset"), 621_355_968_000_000_000),
        "far": Timestamp(2**62),
        "bytes": b"\x01\xff",
        "line": "a\r\nb",
    }
    payload = (
        encode_properties(["id", None, None, None, None, None, Symbol("text/plain")])
        + encode_section(SectionCode.APPLICATION_PROPERTIES, dict(user))
        + encode_section(SectionCode.DATA, b"")
    )
    await send(broker.queue("plain"), [read_message(payload)], FragmentIndex(0), broker.clock)
    answer = await client.take("plain")
    assert {name: json.loads(answer.headers[name]) for name in user} == {
        "when": "Fri, 15 Jan 2027 08:00:00 GMT",
        "span": 5,
        "moment": "Thu, 01 Jan 1970 00:00:00 GMT",
        "far": str(2**62),
        "bytes": "01ff",
        "line": "a\r\nb",
    }


async def test_a_type_that_would_break_out_of_its_line_is_left_out(
    client: RestClient, broker: LocalBroker
) -> None:
    kind = Symbol("text/plain\r\nSet-Cookie: a=b")
    payload = encode_properties(["id", None, None, None, None, None, kind])
    payload += encode_section(SectionCode.DATA, b"x")
    await send(broker.queue("plain"), [read_message(payload)], FragmentIndex(0), broker.clock)
    answer = await client.take("plain")
    assert answer.content == b"x"
    assert "content-type" not in answer.headers
    assert "set-cookie" not in answer.headers


BATCH = {"Content-Type": "application/vnd.microsoft.servicebus.json"}


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        ({"BrokerProperties": "{"}, b"", "BrokerProperties is not valid JSON"),
        ({"BrokerProperties": "[]"}, b"", "must be a JSON object"),
        ({"BrokerProperties": '{"TimeToLive": NaN}'}, b"", "not valid JSON"),
        ({"BrokerProperties": "[" * 50_000}, b"", "not valid JSON"),
        ({"BrokerProperties": '{"Label": {}}'}, b"", "Label in BrokerProperties must be a text"),
        ({"BrokerProperties": '{"TimeToLive": -1}'}, b"", "must be a number of seconds"),
        ({"BrokerProperties": '{"TimeToLive": 0}'}, b"", "must be more than nothing"),
        ({"BrokerProperties": '{"TimeToLive": true}'}, b"", "must be a number of seconds"),
        ({"BrokerProperties": '{"TimeToLiveTimeSpan": "soon"}'}, b"", "is not a duration"),
        ({"BrokerProperties": '{"ScheduledEnqueueTimeUtc": "soon"}'}, b"", "must be a time"),
        ({"BrokerProperties": '{"ScheduledEnqueueTimeUtc": "9999-99-99"}'}, b"", "must be a time"),
        ({"BrokerProperties": '{"MessageId": "%s"}' % ("x" * 129)}, b"", "MessageId"),
        ({"BrokerProperties": '{"SessionId": "a", "PartitionKey": "b"}'}, b"", "PartitionKey"),
        ({"BrokerProperties": '{"Label": "\\ud800"}'}, b"", "cannot be written"),
        ({"Content-Type": "text/ü"}, b"", "cannot be written"),
        ({"P": "x" * 33_000}, b"", "larger than 32768 bytes"),
        (BATCH, b"", "not valid JSON"),
        (BATCH, b"\xff", "not valid JSON"),
        (BATCH, b"[]", "at least one message"),
        (BATCH, b"{}", "at least one message"),
        (BATCH, b"[1]", "Message 0 of the batch must be an object"),
        (BATCH, b'[{"Body": "x"}, {}]', "Message 1 of the batch must be an object"),
        (BATCH, b'[{"Body": "x", "body": 1}]', "unknown key 'body'"),
        (BATCH, b'[{"Body": "x", "IsBodyBase64": 1}]', "must be true or false"),
        (BATCH, b'[{"Body": "x!", "IsBodyBase64": true}]', "cannot be read"),
        (BATCH, b'[{"Body": "x", "BrokerProperties": 1}]', "must be a JSON object"),
        (BATCH, b'[{"Body": "x", "UserProperties": []}, 1]', "Message 1"),
        (BATCH, b'[{"Body": "x", "UserProperties": {"a": []}}]', "'a' is neither"),
        (BATCH, b'[{"Body": "x", "UserProperties": {"a": 9223372036854775808}}]', "too large"),
        (BATCH, b"[" + b'{"Body": ""},' * 5000 + b'{"Body": ""}]', "may have 5000"),
    ],
)
async def test_malformed_input_is_refused_with_a_text_and_nothing_is_kept(
    client: RestClient, headers: dict[str, str], body: bytes, text: str
) -> None:
    answer = await client.call("POST", "/plain/messages", body, headers)
    assert (answer.status_code, text in answer.text) == (400, True), answer.text
    assert "SubCode=40000" in answer.text
    assert (await client.take("plain")).status_code == 204


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf", "", "1&timeout=2"])
async def test_a_timeout_that_is_none_is_refused(client: RestClient, seconds: str) -> None:
    answer = await client.call("DELETE", f"/plain/messages/head?timeout={seconds}")
    assert (answer.status_code, "timeout must be" in answer.text) == (400, True)
