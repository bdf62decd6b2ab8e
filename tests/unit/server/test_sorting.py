"""What a client sent together becomes groups by fragment: columns, where these are enough."""

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.amqp.events import TransferRunReceived
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import Symbol, Uint
from bendybus.content.incoming_message import BATCH_FORMAT, read_message
from bendybus.model.digests import digest_of_plain
from bendybus.model.entity import Queue, QueueProperties, Topic, TopicProperties
from bendybus.model.errors import BusError
from bendybus.model.partitioning import fragment_for
from bendybus.model.plain_messages import PlainMessages
from bendybus.server.fragment_turns import Group
from bendybus.server.sorting import Sorting
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import verbs

IDS = [f"id-{number}" for number in range(40)]
ENTITIES: list[Queue | Topic] = [
    Queue("plain", QueueProperties()),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Queue("once", QueueProperties(requires_duplicate_detection=True)),
    Queue(
        "once-parts", QueueProperties(requires_duplicate_detection=True, enable_partitioning=True)
    ),
    Queue("sessions", QueueProperties(requires_session=True)),
    Queue("short", QueueProperties(default_message_time_to_live=timedelta(minutes=1))),
    Topic("news", TopicProperties()),
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, ManualClock(), ENTITIES) as running:
        yield running


class Sorted:
    """The groups of an entity, and which deliveries were refused."""

    def __init__(self, broker: LocalBroker, name: str, *runs: TransferRunReceived) -> None:
        self.refused: list[tuple[int, str]] = []
        self.intake, self.groups = Sorting(broker.queue(name), self._refuse).groups_of(runs)

    def _refuse(self, ids: Iterable[int], error: BusError) -> None:
        self.refused += [(delivery_id, type(error).__name__) for delivery_id in ids]


def payload(message_id: str, **extra: Any) -> bytes:
    """Return a message that tells its id as its body."""
    header = b""
    if "life" in extra:
        header = encode_section(SectionCode.HEADER, [None, None, Uint(extra["life"])])
    if "key" in extra:
        annotations = {Symbol("x-opt-partition-key"): extra["key"]}
        header += encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations)
    body = encode_section(SectionCode.DATA, message_id.encode())
    return header + encode_properties([message_id]) + body


def run(
    first: int, *payloads: bytes, message_format: int = 0, settled: bool = False
) -> TransferRunReceived:
    """Return deliveries with consecutive ids."""
    ids = list(range(first, first + len(payloads)))
    link: Any = None
    return TransferRunReceived(link, message_format, settled, ids, list(payloads))


def contents(groups: Iterable[Group]) -> list[list[bytes]]:
    """Return what is in each group."""
    return [[message.content for message in group.messages] for group in groups]


def content(message_id: str) -> bytes:
    """Return what is stored of `payload`."""
    return read_message(payload(message_id)).content


@pytest.mark.spec("R2.4")
@pytest.mark.parametrize(("name", "fragment"), [("parts", None), ("plain", 0)])
async def test_messages_with_nothing_but_contents_are_one_group_of_columns(
    broker: LocalBroker, name: str, fragment: int | None
) -> None:
    payloads = [payload(each) for each in IDS]

    result = Sorted(broker, name, run(0, *payloads[:10]), run(10, *payloads[10:]))

    [group] = result.groups
    assert group.fragment == fragment
    assert group.messages == PlainMessages([content(each) for each in IDS])
    assert group.delivery_ids == list(range(len(IDS)))
    assert result.intake.delivery_count == len(IDS)
    assert result.intake.payload_bytes == sum(map(len, payloads))
    assert result.intake.groups_left == 1


@pytest.mark.spec("R2.1")
async def test_ids_spread_columns_over_fragments_in_order(broker: LocalBroker) -> None:
    result = Sorted(broker, "once-parts", run(100, *map(payload, IDS)))

    fragments = [fragment_for(each, 16) for each in IDS]
    assert [group.fragment for group in result.groups] == sorted(set(fragments))
    for group in result.groups:
        here = [at for at, fragment in enumerate(fragments) if fragment == group.fragment]
        assert group.delivery_ids == [100 + at for at in here]
        assert group.messages == PlainMessages(
            [content(IDS[at]) for at in here],
            [digest_of_plain(IDS[at].encode()) for at in here],
        )
    assert result.intake.groups_left == len(result.groups)


async def test_where_there_is_one_fragment_ids_are_only_looked_at(broker: LocalBroker) -> None:
    result = Sorted(broker, "once", run(0, *map(payload, IDS)))

    [group] = result.groups
    assert group.fragment == 0
    assert group.messages == PlainMessages(
        [content(each) for each in IDS], [digest_of_plain(each.encode()) for each in IDS]
    )


@pytest.mark.parametrize(
    ("name", "sent", "life"),
    [
        ("news", payload("a"), None),
        ("short", payload("a"), None),
        ("plain", payload("a", life=5000), 5000),
        ("plain", payload("a", life=0), 0),
    ],
    ids=["a topic", "lives of the queue", "lives of messages", "no life at all"],
)
async def test_messages_that_are_looked_at_one_by_one_are_no_columns(
    broker: LocalBroker, name: str, sent: bytes, life: int | None
) -> None:
    result = Sorted(broker, name, run(0, payload("b"), sent))

    [group] = result.groups
    assert isinstance(group.messages, list)
    assert group.messages == [read_message(payload("b")), read_message(sent)]
    assert group.messages[1].time_to_live_ms == life


async def test_ids_of_messages_that_expire_are_keys_as_well(broker: LocalBroker) -> None:
    lasting = [payload(each, life=5000) for each in IDS]

    result = Sorted(broker, "once-parts", run(0, *lasting))

    for group in result.groups:
        ids = [message.message_id for message in group.messages]
        assert ids
        assert {fragment_for(each, 16) for each in ids} == {group.fragment}
        assert [IDS[at] for at in group.delivery_ids] == ids


async def test_one_message_of_another_shape_and_all_keep_their_order(broker: LocalBroker) -> None:
    sent = [payload("a"), payload("b", key="k"), payload("c")]

    result = Sorted(broker, "plain", run(0, *sent))

    assert contents(result.groups) == [[read_message(each).content for each in sent]]


@pytest.mark.parametrize("settled", [False, True])
async def test_a_batch_stays_whole_between_what_came_before_and_after(
    broker: LocalBroker, settled: bool
) -> None:
    inner = [payload("b"), payload("c")]
    batch = b"".join(encode_section(SectionCode.DATA, each) for each in inner)

    result = Sorted(
        broker,
        "plain",
        run(0, payload("a")),
        run(1, batch, message_format=BATCH_FORMAT, settled=settled),
        run(2, payload("d")),
    )

    assert contents(result.groups) == [[content("a")], list(map(content, "bc")), [content("d")]]
    assert [group.is_whole for group in result.groups] == [False, True, False]
    assert [group.delivery_ids for group in result.groups] == [[0], [] if settled else [1], [2]]


async def test_who_does_not_wait_for_an_answer_gets_none(broker: LocalBroker) -> None:
    settled = run(0, *map(payload, "abc"), settled=True)

    for name in ("plain", "parts", "once-parts", "news"):
        result = Sorted(broker, name, settled, run(3, payload("d")))
        assert [each for group in result.groups for each in group.delivery_ids] == [3]
        assert sum(len(group.messages) for group in result.groups) == 4


async def test_what_cannot_be_read_is_refused_and_the_rest_is_not(broker: LocalBroker) -> None:
    result = Sorted(
        broker,
        "plain",
        run(0, payload("a"), b"\x00\x53\x73\xc0", payload("b")),
        run(3, b"\x00\x53\x73\xc0", settled=True),
    )

    assert contents(result.groups) == [[content("a"), content("b")]]
    assert [group.delivery_ids for group in result.groups] == [[0, 2]]
    assert result.refused == [(1, "ArgumentInvalid")]


@pytest.mark.spec("R4")
async def test_a_message_of_no_session_is_refused_where_there_are_sessions(
    broker: LocalBroker,
) -> None:
    result = Sorted(broker, "sessions", run(0, payload("a")))

    assert result.groups == []
    assert result.refused == [(0, "InvalidOperation")]
