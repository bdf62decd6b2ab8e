"""What holds for every kind of entity: bounds, what never changes, how many there may be."""

import pytest

from bendybus.atom.properties import Kind
from bendybus.model import tier
from tests.http.managing import IF_ANY, Administrator, raw_body, subcode

BAD_REQUEST = "400/40000"
QUOTA_EXCEEDED = "403/40310"


pytestmark = pytest.mark.asyncio(loop_scope="module")


_KEPT = (
    "<DefaultMessageTimeToLive>PT0.5S</DefaultMessageTimeToLive>",
    "<AutoDeleteOnIdle>PT4M</AutoDeleteOnIdle>",
    "<Status>Creating</Status>",
    f"<UserMetadata>{'x' * 1025}</UserMetadata>",
    "<EnableBatchedOperations>maybe</EnableBatchedOperations>",
)
BAD_ELSEWHERE = {
    Kind.QUEUE: ("/q", (*_KEPT, "<LockDuration>PT5M1S</LockDuration>")),
    Kind.TOPIC: (
        "/t",
        (
            *_KEPT,
            "<MaxSizeInMegabytes>1500</MaxSizeInMegabytes>",
            "<MaxSizeInMegabytes>6144</MaxSizeInMegabytes>",
            "<MaxMessageSizeInKilobytes>1024</MaxMessageSizeInKilobytes>",
            "<DuplicateDetectionHistoryTimeWindow>PT19S</DuplicateDetectionHistoryTimeWindow>",
            "<DuplicateDetectionHistoryTimeWindow>P8D</DuplicateDetectionHistoryTimeWindow>",
        ),
    ),
    Kind.SUBSCRIPTION: (
        "/t/subscriptions/s",
        (
            *_KEPT,
            "<LockDuration>PT4.999S</LockDuration>",
            "<LockDuration>PT5M1S</LockDuration>",
            "<MaxDeliveryCount>0</MaxDeliveryCount>",
            "<MaxDeliveryCount>2001</MaxDeliveryCount>",
            "<ForwardTo>nowhere</ForwardTo>",
            "<ForwardTo>https://elsewhere.example/q</ForwardTo>",
            "<ForwardDeadLetteredMessagesTo>nowhere</ForwardDeadLetteredMessagesTo>",
            (
                "<DeadLetteringOnFilterEvaluationExceptions>0.5"
                "</DeadLetteringOnFilterEvaluationExceptions>"
            ),
        ),
    ),
}


@pytest.mark.parametrize("kind", BAD_ELSEWHERE)
async def test_the_bounds_hold_for_every_kind_and_for_changes_too(
    administrator: Administrator, kind: Kind
) -> None:
    path, contents = BAD_ELSEWHERE[kind]
    before = administrator.broker.catalog.standing()
    for content in contents:
        named = content[1 : content.index(">")]
        body = raw_body(kind, content)
        made = await administrator.call("PUT", f"{path}-new", body)
        changed = await administrator.call("PUT", path, body, IF_ANY)
        for answer in (made, changed):
            assert subcode(answer) == BAD_REQUEST, answer.text
            assert named in answer.text, "the refusal names the element"
    assert administrator.broker.catalog.standing() == before


IMMUTABLE = {
    "partitioning, of a conventional queue": (Kind.QUEUE, "/q", "enable_partitioning", True),
    "partitioning, of a partitioned queue": (
        *(Kind.QUEUE, "/partitioned"),
        *("enable_partitioning", False),
    ),
    "sessions": (Kind.QUEUE, "/q", "requires_session", True),
    "duplicate detection": (Kind.QUEUE, "/q", "requires_duplicate_detection", True),
    "express": (Kind.QUEUE, "/q", "enable_express", True),
    "partitioning, of a topic": (Kind.TOPIC, "/t", "enable_partitioning", True),
    "duplicate detection, of a topic": (Kind.TOPIC, "/t", "requires_duplicate_detection", True),
    "sessions, of a subscription": (
        *(Kind.SUBSCRIPTION, "/t/subscriptions/s"),
        *("requires_session", True),
    ),
}


@pytest.mark.spec("R1.3")
@pytest.mark.parametrize(
    ("kind", "path", "field", "value"), IMMUTABLE.values(), ids=IMMUTABLE.keys()
)
async def test_what_is_chosen_at_creation_cannot_be_changed(
    administrator: Administrator, kind: Kind, path: str, field: str, value: bool
) -> None:
    before = administrator.broker.catalog.record(path[1:])
    answer = await administrator.update(path, kind, **{field: value})
    assert subcode(answer) == BAD_REQUEST
    assert "chosen at creation" in answer.text
    assert administrator.broker.catalog.record(path[1:]) == before


@pytest.mark.spec("R1.5")
async def test_the_hundred_and_first_partitioned_entity_is_refused(
    lone: Administrator,
) -> None:
    for number in range(99):
        answer = await lone.create(f"/p{number}", Kind.QUEUE, enable_partitioning=True)
        assert answer.status_code == 201, answer.text
    answer = await lone.create("/one-more", Kind.TOPIC, enable_partitioning=True)
    assert subcode(answer) == QUOTA_EXCEEDED
    assert "100 partitioned" in answer.text
    assert not lone.broker.catalog.has("one-more")
    assert (await lone.create("/one-more", Kind.TOPIC)).status_code == 201


@pytest.mark.spec("R1.5")
@pytest.mark.parametrize("kind", [Kind.QUEUE, Kind.TOPIC])
async def test_a_namespace_has_only_so_many_queues_and_topics(
    lone: Administrator, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tier, "ENTITIES_MAX", 3)
    answer = await lone.create("/one-more", kind)
    assert subcode(answer) == QUOTA_EXCEEDED
    assert "at most 3 queues and topics" in answer.text
    assert not lone.broker.catalog.has("one-more")
    more = await lone.create("/t/subscriptions/more", Kind.SUBSCRIPTION)
    assert more.status_code == 201, "subscriptions are not counted"
    await lone.call("DELETE", "/partitioned")
    assert (await lone.create("/one-more", kind)).status_code == 201
