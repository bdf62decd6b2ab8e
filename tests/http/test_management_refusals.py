"""Bad requests to the management API: each is refused with its SubCode, and nothing changes."""

from datetime import UTC, datetime

import pytest

from bendybus.atom.properties import Kind
from bendybus.model.access import make_sas
from tests.http.managing import IF_ANY, Administrator, raw_body, request_body, subcode

BAD_REQUEST = "400/40000"
NOT_FOUND = "404/40400"
CONFLICT = "409/40900"


pytestmark = pytest.mark.asyncio(loop_scope="module")


# What a queue is created with, and what the refusal names.
BAD_PROPERTIES = {
    "a lock that is too short": "<LockDuration>PT4.999S</LockDuration>",
    "a lock that is too long": "<LockDuration>PT5M1S</LockDuration>",
    "a lock without end": "<LockDuration>P10675199DT2H48M5.4775807S</LockDuration>",
    "no duration": "<LockDuration>one minute</LockDuration>",
    "an empty duration": "<LockDuration></LockDuration>",
    "a size between the steps": "<MaxSizeInMegabytes>1500</MaxSizeInMegabytes>",
    "a size beyond the tier": "<MaxSizeInMegabytes>6144</MaxSizeInMegabytes>",
    "no size": "<MaxSizeInMegabytes>0</MaxSizeInMegabytes>",
    "a size that is no number": "<MaxSizeInMegabytes>big</MaxSizeInMegabytes>",
    "a size of too many digits": "<MaxSizeInMegabytes>99999999999999999999</MaxSizeInMegabytes>",
    "a life that is too short": "<DefaultMessageTimeToLive>PT0.5S</DefaultMessageTimeToLive>",
    "an idleness that is too short": "<AutoDeleteOnIdle>PT4M</AutoDeleteOnIdle>",
    "a window that is too short": (
        "<DuplicateDetectionHistoryTimeWindow>PT19S</DuplicateDetectionHistoryTimeWindow>"
    ),
    "a window that is too long": (
        "<DuplicateDetectionHistoryTimeWindow>P8D</DuplicateDetectionHistoryTimeWindow>"
    ),
    "no delivery": "<MaxDeliveryCount>0</MaxDeliveryCount>",
    "too many deliveries": "<MaxDeliveryCount>2001</MaxDeliveryCount>",
    "neither true nor false": "<RequiresSession>maybe</RequiresSession>",
    "a status that nobody can set": "<Status>Creating</Status>",
    "an unknown status": "<Status>Sleeping</Status>",
    "metadata that is too long": f"<UserMetadata>{'x' * 1025}</UserMetadata>",
    "a target that is not there": "<ForwardTo>nowhere</ForwardTo>",
    "a target of dead letters that is not there": (
        "<ForwardDeadLetteredMessagesTo>nowhere</ForwardDeadLetteredMessagesTo>"
    ),
    "a target in another namespace": "<ForwardTo>sb://elsewhere:5671/q</ForwardTo>",
    "a target of dead letters in another namespace": (
        "<ForwardDeadLetteredMessagesTo>https://elsewhere.example/q</ForwardDeadLetteredMessagesTo>"
    ),
    "forwarding to itself": "<ForwardTo>new</ForwardTo>",
    "the same twice": "<RequiresSession>true</RequiresSession>" * 2,
    "a right that is none": (
        "<AuthorizationRules><AuthorizationRule><KeyName>k</KeyName><Rights>"
        "<AccessRights>Everything</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"
    ),
    "an authorization rule without a name": (
        "<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Send</AccessRights>"
        "</Rights></AuthorizationRule></AuthorizationRules>"
    ),
    "manage without the rights that it implies": (
        "<AuthorizationRules><AuthorizationRule><KeyName>k</KeyName><Rights>"
        "<AccessRights>Manage</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"
    ),
    "a key that is too short": (
        "<AuthorizationRules><AuthorizationRule><KeyName>k</KeyName><Rights>"
        "<AccessRights>Send</AccessRights></Rights><PrimaryKey>short</PrimaryKey>"
        "</AuthorizationRule></AuthorizationRules>"
    ),
}


@pytest.mark.parametrize("content", BAD_PROPERTIES.values(), ids=BAD_PROPERTIES.keys())
async def test_a_queue_with_a_bad_property_is_not_made(
    administrator: Administrator, content: str
) -> None:
    answer = await administrator.call("PUT", "/new", raw_body(Kind.QUEUE, content))
    assert subcode(answer) == BAD_REQUEST
    named = content[1 : content.index(">")]
    assert named in answer.text, "the refusal names the element"
    assert not administrator.broker.catalog.has("new")


async def test_express_and_duplicate_detection_do_not_go_together(
    administrator: Administrator,
) -> None:
    content = (
        "<RequiresDuplicateDetection>true</RequiresDuplicateDetection>"
        "<EnableExpress>true</EnableExpress>"
    )
    assert (
        subcode(await administrator.call("PUT", "/new", raw_body(Kind.QUEUE, content)))
        == BAD_REQUEST
    )


async def test_a_queue_with_sessions_cannot_forward(administrator: Administrator) -> None:
    content = "<RequiresSession>true</RequiresSession><ForwardTo>q</ForwardTo>"
    assert (
        subcode(await administrator.call("PUT", "/new", raw_body(Kind.QUEUE, content)))
        == BAD_REQUEST
    )


BAD_NAMES = {
    "spaces": "/a%20b",
    "letters of other alphabets": "/caf%C3%A9",
    "a percent sign": "/a%2525",
    "an ampersand": "/a%26b",
    "a name that is too long": "/" + "x" * 261,
    "a subscription with a long name": "/t/subscriptions/" + "x" * 51,
    "a subscription with odd characters": "/t/subscriptions/a%2Bb",
    "parents": "/a/../b",
    "encoded parents": "/a/%2e%2e/b",
    "half encoded parents": "/a/.%2E/b",
    "the folder itself": "/a/./b",
    "an empty segment": "/a//b",
    "an encoded empty segment": "/a%2F/b",
    "only slashes": "//",
    "two slashes at the end": "/a//",
    "nothing": "/",
    "a null character": "/a%00b",
    "a control character": "/a%0db",
    "a backslash": "/a%5Cb",
    "bytes that are not UTF-8": "/a%FFb",
    "a percent sign alone": "/a%zz",
    "a reserved rule name": "/t/subscriptions/s/rules/$Other",
}


@pytest.mark.parametrize("path", BAD_NAMES.values(), ids=BAD_NAMES.keys())
async def test_a_name_that_cannot_be_is_refused(administrator: Administrator, path: str) -> None:
    kind = Kind.QUEUE
    if "/rules/" in path:
        kind = Kind.RULE
    elif "/subscriptions/" in path:
        kind = Kind.SUBSCRIPTION
    before = administrator.broker.catalog.standing()
    answer = await administrator.call_raw("PUT", path, raw_body(kind, ""))
    assert subcode(answer) == BAD_REQUEST, answer.text
    assert administrator.broker.catalog.standing() == before


@pytest.mark.parametrize(
    "path", ["/a/../q", "/%2e%2e/q", "//q", "/q%00", "/q%0d", "/q%5c..", "/q%zz", "/q%ff", "/q/./"]
)
async def test_no_trick_with_a_path_leads_to_an_entity(
    administrator: Administrator, path: str
) -> None:
    for method in ("GET", "DELETE"):
        assert subcode(await administrator.call_raw(method, path)) == BAD_REQUEST
    assert administrator.broker.catalog.has("q")


async def test_reserved_words_are_no_entities(administrator: Administrator) -> None:
    for path in ("/$cbs", "/$Resources/other", "/$management", "/$Resources"):
        answer = await administrator.call("PUT", path, raw_body(Kind.QUEUE, ""))
        assert subcode(answer) == NOT_FOUND, path


BAD_BODIES = {
    "nothing": b"",
    "no XML": b"hello",
    "an element that does not end": b"<entry><content>",
    "a feed": b"<feed xmlns='http://www.w3.org/2005/Atom' />",
    "an entry without content": b"<entry xmlns='http://www.w3.org/2005/Atom' />",
    "an entry with an unknown description": (
        b"<entry><content><RelayDescription /></content></entry>"
    ),
    "two descriptions": (
        b"<entry><content><QueueDescription /><TopicDescription /></content></entry>"
    ),
    "a document type": (
        b"<!DOCTYPE entry [<!ENTITY a 'b'>]><entry><content><QueueDescription><UserMetadata>&a;"
        b"</UserMetadata></QueueDescription></content></entry>"
    ),
    "an outside document type": b"<!DOCTYPE entry SYSTEM 'http://localhost/x'><entry />",
    "an unknown entity": (
        b"<entry><content><QueueDescription><UserMetadata>&a;</UserMetadata></QueueDescription>"
        b"</content></entry>"
    ),
    "a rule": raw_body(Kind.RULE, "").encode(),
    "a subscription": raw_body(Kind.SUBSCRIPTION, "").encode(),
    "a namespace": raw_body(Kind.NAMESPACE, "").encode(),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_body_that_describes_no_queue_is_refused(
    administrator: Administrator, body: bytes
) -> None:
    assert subcode(await administrator.call("PUT", "/new", body)) == BAD_REQUEST
    assert not administrator.broker.catalog.has("new")


BAD_RULES = {
    "an SQL filter without a text": '<Filter i:type="SqlFilter" />',
    "an SQL filter that means nothing": (
        '<Filter i:type="SqlFilter"><SqlExpression>a = = b</SqlExpression></Filter>'
    ),
    "an SQL filter that is too long": (
        f"<Filter i:type=\"SqlFilter\"><SqlExpression>a = '{'x' * 1024}'</SqlExpression></Filter>"
    ),
    "a parameter without a value": (
        '<Filter i:type="SqlFilter"><SqlExpression>a = @b</SqlExpression></Filter>'
    ),
    "a correlation filter of nothing": '<Filter i:type="CorrelationFilter" />',
    "an unknown filter": '<Filter i:type="DateFilter" />',
    "an unknown action": '<Action i:type="MagicAction" />',
    "an action that means nothing": (
        '<Action i:type="SqlRuleAction"><SqlExpression>MAKE it so</SqlExpression></Action>'
    ),
    "a value of an unknown type": (
        '<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key>'
        '<Value i:type="x:colour">red</Value></KeyValueOfstringanyType></Properties></Filter>'
    ),
    "a value that is not of its type": (
        '<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key>'
        '<Value i:type="x:int">red</Value></KeyValueOfstringanyType></Properties></Filter>'
    ),
    "a key given twice": (
        '<Filter i:type="CorrelationFilter"><Properties>'
        "<KeyValueOfstringanyType><Key>k</Key><Value>1</Value></KeyValueOfstringanyType>"
        "<KeyValueOfstringanyType><Key>k</Key><Value>2</Value></KeyValueOfstringanyType>"
        "</Properties></Filter>"
    ),
}


@pytest.mark.parametrize("content", BAD_RULES.values(), ids=BAD_RULES.keys())
async def test_a_bad_rule_is_not_made(administrator: Administrator, content: str) -> None:
    path = "/t/subscriptions/s/rules/new"
    assert (
        subcode(await administrator.call("PUT", path, raw_body(Kind.RULE, content))) == BAD_REQUEST
    )
    assert subcode(await administrator.call("GET", path)) == NOT_FOUND


EXISTING = {
    "a queue": ("/Q", Kind.QUEUE),
    "a topic in place of a queue": ("/q", Kind.TOPIC),
    "a topic": ("/T", Kind.TOPIC),
    "a subscription": ("/t/subscriptions/S", Kind.SUBSCRIPTION),
    "a rule": ("/t/subscriptions/s/rules/$Default", Kind.RULE),
}


@pytest.mark.parametrize(("path", "kind"), EXISTING.values(), ids=EXISTING.keys())
async def test_what_exists_is_not_made_again(
    administrator: Administrator, path: str, kind: Kind
) -> None:
    answer = await administrator.call("PUT", path, raw_body(kind, ""))
    assert subcode(answer) == CONFLICT
    assert "already exists" in answer.text


MISSING = {
    "a queue": ("/none", Kind.QUEUE),
    "a subscription": ("/t/subscriptions/none", Kind.SUBSCRIPTION),
    "a subscription of no topic": ("/none/subscriptions/s", Kind.SUBSCRIPTION),
    "a subscription of a queue": ("/q/subscriptions/s", Kind.SUBSCRIPTION),
    "a rule": ("/t/subscriptions/s/rules/none", Kind.RULE),
    "a rule of no subscription": ("/t/subscriptions/none/rules/r", Kind.RULE),
}


@pytest.mark.parametrize(("path", "kind"), MISSING.values(), ids=MISSING.keys())
async def test_what_is_not_there_cannot_be_shown_changed_or_deleted(
    administrator: Administrator, path: str, kind: Kind
) -> None:
    shown = await administrator.call("GET", path)
    changed = await administrator.call("PUT", path, raw_body(kind, ""), IF_ANY)
    deleted = await administrator.call("DELETE", path)
    assert [subcode(each) for each in (shown, changed, deleted)] == [NOT_FOUND] * 3
    assert "No service is hosted at the specified address." in deleted.text


async def test_what_is_missing_has_no_list(administrator: Administrator) -> None:
    for path in ("/none/subscriptions", "/q/subscriptions", "/t/subscriptions/none/rules"):
        assert subcode(await administrator.call("GET", path)) == NOT_FOUND


async def test_a_subscription_needs_its_topic(administrator: Administrator) -> None:
    for path in ("/none/subscriptions/s", "/q/subscriptions/s"):
        answer = await administrator.call("PUT", path, raw_body(Kind.SUBSCRIPTION, ""))
        assert subcode(answer) == NOT_FOUND


async def test_an_entity_stays_of_its_kind(administrator: Administrator) -> None:
    answer = await administrator.call("PUT", "/q", raw_body(Kind.TOPIC, ""), IF_ANY)
    assert subcode(answer) == BAD_REQUEST


@pytest.mark.parametrize("query", ["$skip=-1", "$skip=x", "$top=0", "$top=1e3", "$skip=9999999999"])
async def test_a_page_that_cannot_be_is_refused(administrator: Administrator, query: str) -> None:
    assert subcode(await administrator.call("GET", f"/$Resources/queues?{query}")) == BAD_REQUEST


async def test_lists_and_the_namespace_are_only_read(administrator: Administrator) -> None:
    for path in ("/$Resources/queues", "/$namespaceinfo", "/t/subscriptions"):
        for method in ("PUT", "DELETE"):
            answer = await administrator.call(method, path, raw_body(Kind.QUEUE, ""))
            assert subcode(answer) == "405/40500"
            assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("path", ["/q/messages/head", "/t/Subscriptions/s/Messages/Head"])
async def test_messages_are_not_got_but_received(administrator: Administrator, path: str) -> None:
    answer = await administrator.call("GET", path)
    assert subcode(answer) == "405/40500"
    assert answer.headers["allow"] == "DELETE, POST"


async def test_an_entity_may_be_called_as_if_it_was_a_message(lone: Administrator) -> None:
    await lone.create("/q/messages/head", Kind.QUEUE)
    assert (await lone.call("GET", "/q/messages/head")).status_code == 200


@pytest.mark.spec("R7.3")
@pytest.mark.parametrize(
    "query", ["?api-version=2013-08", "?x=api-version", "?api-version=2012-03"]
)
async def test_partitioning_needs_a_version_that_has_it(lone: Administrator, query: str) -> None:
    body = request_body(Kind.QUEUE, enable_partitioning=True)
    answer = await lone.call("PUT", f"/new{query}", body)
    assert subcode(answer) == BAD_REQUEST
    assert "EnablePartitioning" in answer.text
    assert "2013-10" in answer.text
    assert not lone.broker.catalog.has("new")
    conventional = request_body(Kind.QUEUE, enable_partitioning=False)
    assert (await lone.call("PUT", f"/new{query}", conventional)).status_code == 201
    late = await lone.call("PUT", "/late?api-version=2013-10", body)
    assert late.status_code == 201


@pytest.mark.spec("R7.3")
async def test_the_version_is_found_in_any_case(lone: Administrator) -> None:
    body = request_body(Kind.QUEUE, enable_partitioning=True)
    answer = await lone.call_raw("PUT", "/new", body, query="API-Version=2013-10")
    assert answer.status_code == 201


async def test_the_size_of_messages_needs_a_version_that_has_it(
    administrator: Administrator,
) -> None:
    body = request_body(Kind.QUEUE, max_message_size_kilobytes=256)
    answer = await administrator.call("PUT", "/new?api-version=2017-04", body)
    assert subcode(answer) == BAD_REQUEST
    shown = await administrator.call("GET", "/q?api-version=2017-04")
    assert "MaxMessageSizeInKilobytes" not in shown.text
    assert "MaxMessageSizeInKilobytes" in (await administrator.call("GET", "/q")).text


@pytest.mark.parametrize(
    "version", ["yesterday", "2021", "2021-5", "2021-05-x", "-1", "2021-13", "2021-00"]
)
async def test_a_version_that_is_no_date_is_refused(
    administrator: Administrator, version: str
) -> None:
    assert subcode(await administrator.call("GET", f"/q?api-version={version}")) == BAD_REQUEST


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def test_only_who_may_manage_does(administrator: Administrator) -> None:
    nobody = await administrator.http.get("/q")
    assert subcode(nobody) == "401/40103"
    far = 4_000_000_000
    sender = make_sas("http://localhost/", "Sender", "send-key", _at(far))
    refused = await administrator.http.get("/q", headers={"Authorization": sender})
    assert subcode(refused) == "401/40100"
    forged = make_sas("http://localhost/", "Root", "other-key", _at(far))
    assert (
        subcode(await administrator.http.get("/q", headers={"Authorization": forged}))
        == "401/40103"
    )
    other = make_sas("http://localhost/t", "Root", "root-key", _at(far))
    elsewhere = await administrator.http.delete("/q", headers={"Authorization": other})
    assert subcode(elsewhere) == "401/40103"
    assert administrator.broker.catalog.has("q")
