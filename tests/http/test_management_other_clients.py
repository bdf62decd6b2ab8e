"""Requests in the manner of the clients that are not installed here: .NET, Java and Go.

They differ in how they write namespaces and types, in the case of the words of a path, and in what
their tokens are signed for.
"""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from bendybus.atom.properties import Kind
from bendybus.atom.rules import read_rule
from bendybus.model.rule import CorrelationFilter, SqlAction, SqlFilter
from tests.http.managing import VERSION, Administrator, managing

ATOM = "http://www.w3.org/2005/Atom"
CONNECT = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA = "http://www.w3.org/2001/XMLSchema"


@pytest.fixture
async def administrator(tmp_path: Path) -> AsyncIterator[Administrator]:
    async with managing(tmp_path) as administrator:
        await administrator.create("/t", Kind.TOPIC)
        await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
        yield administrator


QUEUES = {
    ".NET": (
        f'<entry xmlns="{ATOM}"><content type="application/xml"><QueueDescription'
        f' xmlns="{CONNECT}"><LockDuration>PT30S</LockDuration>'
        "<MaxSizeInMegabytes>1024</MaxSizeInMegabytes>"
        "<RequiresDuplicateDetection>false</RequiresDuplicateDetection>"
        "<RequiresSession>false</RequiresSession><MaxDeliveryCount>5</MaxDeliveryCount>"
        "<EnableBatchedOperations>true</EnableBatchedOperations><AuthorizationRules />"
        "<Status>Active</Status><EnablePartitioning>false</EnablePartitioning>"
        "</QueueDescription></content></entry>"
    ),
    "Java": (
        f'<?xml version="1.0" encoding="UTF-8"?><entry xmlns="{ATOM}"><author><name>me</name>'
        f'</author><content type="application/xml"><QueueDescription xmlns="{CONNECT}"'
        f' xmlns:xsi="{INSTANCE}"><LockDuration>PT30S</LockDuration>'
        '<MaxDeliveryCount>5</MaxDeliveryCount><UserMetadata xsi:nil="true" />'
        "</QueueDescription></content></entry>"
    ),
    "Go": (
        f'<entry xmlns:atom="{ATOM}" xmlns="{ATOM}"><content type="application/xml">'
        f'<QueueDescription xmlns:i="{INSTANCE}" xmlns="{CONNECT}">'
        "<LockDuration>PT30S</LockDuration><MaxDeliveryCount>5</MaxDeliveryCount>"
        "<AccessedAt></AccessedAt><CreatedAt></CreatedAt></QueueDescription></content></entry>"
    ),
}


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize("body", QUEUES.values(), ids=QUEUES.keys())
async def test_a_queue_is_made_as_each_client_describes_it(
    administrator: Administrator, body: str
) -> None:
    answer = await administrator.call("PUT", "/q", body)
    assert answer.status_code == 201, answer.text
    made = administrator.broker.queue("q").properties
    assert (made.lock_duration, made.max_delivery_count) == (timedelta(seconds=30), 5)


RULES = {
    ".NET": (
        (
            f'<RuleDescription xmlns="{CONNECT}"><Filter p4:type="CorrelationFilter"'
            f' xmlns:p4="{INSTANCE}"><CorrelationId>c</CorrelationId><Properties>'
            f'<KeyValueOfstringanyType><Key>n</Key><Value p7:type="l28:int" xmlns:l28="{SCHEMA}"'
            f' xmlns:p7="{INSTANCE}">5</Value></KeyValueOfstringanyType></Properties></Filter>'
            f'<Action p4:type="EmptyRuleAction" xmlns:p4="{INSTANCE}" /><Name>r</Name>'
            "</RuleDescription>"
        ),
        CorrelationFilter(correlation_id="c", properties={"n": 5}),
        None,
    ),
    "Java": (
        (
            f'<RuleDescription xmlns="{CONNECT}"><Filter xmlns:xsi="{INSTANCE}"'
            ' xsi:type="SqlFilter"><SqlExpression>a = 1</SqlExpression>'
            "<CompatibilityLevel>20</CompatibilityLevel></Filter>"
            f'<Action xmlns:xsi="{INSTANCE}" xsi:type="SqlRuleAction"><SqlExpression>SET b = 2'
            "</SqlExpression><CompatibilityLevel>20</CompatibilityLevel></Action><Name>r</Name>"
            "</RuleDescription>"
        ),
        SqlFilter("a = 1"),
        SqlAction("SET b = 2"),
    ),
    "Go": (
        (
            f'<RuleDescription xmlns="{CONNECT}" xmlns:i="{INSTANCE}"><Filter'
            f' xmlns:XMLSchema-instance="{INSTANCE}" XMLSchema-instance:type="SqlFilter">'
            "<SqlExpression>a = @b</SqlExpression><Parameters><KeyValueOfstringanyType>"
            "<Key>@b</Key>"
            f'<Value xmlns:XMLSchema-instance="{INSTANCE}" XMLSchema-instance:type="l28:string"'
            f' xmlns:l28="{SCHEMA}">x</Value></KeyValueOfstringanyType></Parameters></Filter>'
            "<Name>r</Name></RuleDescription>"
        ),
        SqlFilter("a = @b", {"@b": "x"}),
        None,
    ),
}


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(("description", "filtered", "action"), RULES.values(), ids=RULES.keys())
async def test_a_rule_is_made_as_each_client_describes_it(
    administrator: Administrator,
    description: str,
    filtered: SqlFilter | CorrelationFilter,
    action: SqlAction | None,
) -> None:
    body = f'<entry xmlns="{ATOM}"><content type="application/xml">{description}</content></entry>'
    path = "/t/Subscriptions/s/rules/r"
    assert (await administrator.call("PUT", path, body)).status_code == 201
    rule = read_rule((await administrator.entry(path)).description, "r")
    assert (rule.filter, rule.action) == (filtered, action)


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    "path", ["/t", "/T/Subscriptions/S", "/$Resources/Queues", "/t/subscriptions"]
)
async def test_a_token_for_one_request_in_small_letters_is_a_good_one(
    administrator: Administrator, path: str
) -> None:
    """Go and JavaScript sign the whole address of each request, encoded, in small letters."""
    address = f"https://localhost:443{path}?{VERSION}"
    resource = quote(address.lower(), safe="").lower()
    expiry = str(administrator.clock.now() // 1000 + 300)
    digest = hmac.new(b"root-key", f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote(base64.b64encode(digest), safe="")
    token = f"SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn=Root"
    answer = await administrator.http.get(f"{path}?{VERSION}", headers={"Authorization": token})
    assert answer.status_code == 200, answer.text
