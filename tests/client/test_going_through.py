"""Runs through a queue, part by part: what is asked, how fast, and what if an answer is lost."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bendybus.amqp.values import AmqpArray, Int, Long, Timestamp
from bendybus.client.errors import ArgumentInvalid, ConnectionLost
from bendybus.client.going_through import Progress, whole_run
from bendybus.client.message import MessageState
from bendybus.client.purging import Purge, Purging
from bendybus.client.redriving import Edit, Redrive, Redriving
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker

pytestmark = pytest.mark.spec("R8.2")
REDRIVE = "bendybus:redrive-messages"
EXTENT = "bendybus:queue-extent"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIFE_SECONDS = 30.0


class Queue:
    """A scripted queue of dead letters: as many in each fragment as it is told."""

    def __init__(self, *counts: int) -> None:
        self.numbers = [
            fragment << 48 | counter
            for fragment, count in enumerate(counts)
            for counter in range(1, count + 1)
        ]
        self.ends = [fragment << 48 | count for fragment, count in enumerate(counts)]
        self.asked: list[dict[str, Any]] = []
        self.busy: set[int] = set()

    def serve(self, broker: ScriptedBroker) -> None:
        broker.operations[EXTENT] = self._extent
        broker.operations[REDRIVE] = self._redrive

    def _extent(self, _: object) -> tuple[int, object]:
        ends = AmqpArray(Long, tuple(map(Long, self.ends)))
        return 200, {"message-count": Long(len(self.numbers)), "last-sequence-numbers": ends}

    def _redrive(self, body: Any) -> tuple[int, object]:
        self.asked.append(body)
        first, last = body["from-sequence-number"], body["until-sequence-number"]
        if first >> 48 in self.busy:
            return 503, None
        meant = [each for each in self.numbers if first <= each <= last]
        taken = meant[: body["message-count"]]
        self.numbers = [each for each in self.numbers if each not in taken]
        following = Long(taken[-1] + 1) if len(taken) < len(meant) else None
        return 200, {
            "message-count": Int(len(taken)),
            "looked-at": Int(len(taken)),
            "locked": Int(0),
            "next-sequence-number": following,
        }


def redriving(queue: Queue, wish: Redrive) -> tuple[MemoryShell, Redriving]:
    broker = ScriptedBroker()
    queue.serve(broker)
    again = ScriptedBroker()
    queue.serve(again)
    shell = MemoryShell(broker, again)
    return shell, Redriving(shell.connector, "orders/$DeadLetterQueue", wish)


def run(queue: Queue, wish: Redrive) -> tuple[Progress, MemoryShell, list[Progress]]:
    shell, run = redriving(queue, wish)
    shown: list[Progress] = []
    progress = shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, shown.append))
    return progress, shell, shown


def test_every_fragment_is_gone_through_to_where_it_ended() -> None:
    queue = Queue(2500, 0, 3)
    progress, _, shown = run(queue, Redrive())
    assert (progress.total, progress.done, progress.looked_at) == (2503, 2503, 2503)
    assert progress.is_exact
    assert [each["from-sequence-number"] for each in queue.asked] == [
        0,
        1001,
        2001,
        1 << 48,
        2 << 48,
    ]
    assert {each["until-sequence-number"] for each in queue.asked[:3]} == {2500}
    assert len(shown) == 5


def test_what_is_wished_is_said_in_every_request() -> None:
    queue = Queue(1)
    wish = Redrive(
        filter="a = 1",
        reason="why",
        enqueued_since=NOON,
        enqueued_until=NOON,
        edit="SET a = 2",
        to="elsewhere",
        dry_run=True,
    )
    run(queue, wish)
    [asked] = queue.asked
    noon = Timestamp(int(NOON.timestamp() * 1000))
    assert asked == {
        "filter": "a = 1",
        "dead-letter-reason": "why",
        "enqueued-since": noon,
        "enqueued-until": noon,
        "edit": "SET a = 2",
        "to": "elsewhere",
        "to-source": False,
        "dry-run": True,
        "from-sequence-number": 0,
        "until-sequence-number": 1,
        "message-count": 1000,
    }


def test_numbers_bound_what_is_gone_through() -> None:
    queue = Queue(10, 10)
    run(queue, Redrive(from_sequence=5, until_sequence=(1 << 48) + 2))
    assert len(queue.numbers) == 4 + 8


def test_named_messages_are_asked_for_where_they_lie_close_together() -> None:
    queue = Queue(5000, 10)
    other = (1 << 48) + 3
    progress, *_ = run(queue, Redrive(sequences=[other, 700, 3, 3, 90, 4000]))
    assert progress.total == 5
    assert [
        (each["from-sequence-number"], each["until-sequence-number"], each["sequence-numbers"])
        for each in queue.asked
    ] == [
        (3, 90, AmqpArray(Long, (3, 90))),
        (700, 700, AmqpArray(Long, (700,))),
        (4000, 4000, AmqpArray(Long, (4000,))),
        (other, other, AmqpArray(Long, (other,))),
    ]


def test_many_named_messages_go_in_parts_and_go_on_where_a_part_ended() -> None:
    queue = Queue(3000)
    progress, *_ = run(queue, Redrive(sequences=range(1, 2501), rate=5000))
    assert progress.done == 2500
    assert [
        (each["from-sequence-number"], len(each["sequence-numbers"].items)) for each in queue.asked
    ] == [(1, 1000), (501, 500), (1001, 1000), (1501, 500), (2001, 500)]


def test_edits_are_said_beside_the_numbers_and_large_ones_apart() -> None:
    queue = Queue(10)
    large = Edit(body=b"x" * 400_000)
    small = Edit(system={"Label": "a"}, properties={"b": 1}, removed=["c"])
    run(queue, Redrive(edits={1: small, 2: large, 3: large, 4: small}))
    nothing: dict[str, object] = {
        "system": {},
        "properties": {},
        "removed": [],
        "body": large.body,
    }
    changed = {"system": {"Label": "a"}, "properties": {"b": 1}, "removed": ["c"]}
    assert [each["edits"] for each in queue.asked] == [[changed, nothing], [nothing, changed]]


def test_all_named_messages_of_a_fragment_that_is_busy_are_tried_again_at_the_end() -> None:
    queue = Queue(5000, 1)
    queue.busy = {0}
    progress, *_ = run(queue, Redrive(sequences=[1, 4000, (1 << 48) + 1]))
    assert (progress.done, progress.unavailable) == (1, [0])
    assert [each["from-sequence-number"] for each in queue.asked] == [1, (1 << 48) + 1, 1]


def test_a_count_is_never_exceeded() -> None:
    queue = Queue(1500, 1500)
    progress, *_ = run(queue, Redrive(count=1700))
    assert progress.done == 1700
    assert len(queue.numbers) == 1300


def test_a_rate_is_kept() -> None:
    queue = Queue(500)
    _, shell, _ = run(queue, Redrive(rate=100))
    # The last part need not be waited for.
    assert shell.time == pytest.approx(5, abs=0.2)
    assert {each["message-count"] for each in queue.asked} == {10}


def test_a_slow_rate_moves_one_at_a_time() -> None:
    queue = Queue(3)
    _, shell, _ = run(queue, Redrive(rate=0.01))
    assert shell.time == pytest.approx(200, abs=0.2)


def test_a_lost_answer_is_asked_for_again_and_does_no_harm() -> None:
    queue = Queue(2000)
    shell, run = redriving(queue, Redrive())
    shell.cut_when = lambda: len(queue.asked) == 1
    progress = shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, None))
    assert queue.numbers == []
    assert [each["from-sequence-number"] for each in queue.asked[:2]] == [0, 0]
    # What the lost answer said is not known.
    assert (progress.done, progress.is_exact) == (1000, False)


def test_with_a_count_a_lost_answer_ends_the_run() -> None:
    queue = Queue(2000)
    shell, run = redriving(queue, Redrive(count=1500))
    shell.cut_when = lambda: len(queue.asked) == 1
    with pytest.raises(ConnectionLost):
        shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, None))
    assert len(queue.asked) == 1


def test_a_fragment_that_is_busy_is_tried_again_and_then_reported() -> None:
    queue = Queue(1, 1, 1)
    queue.busy = {1}
    progress, *_ = run(queue, Redrive())
    assert (progress.done, progress.unavailable) == (2, [1])
    assert [each["from-sequence-number"] >> 48 for each in queue.asked] == [0, 1, 2, 1]


def test_a_fragment_that_is_away_is_reported() -> None:
    queue = Queue(1, 1)
    queue.ends[1] = -1
    progress, *_ = run(queue, Redrive())
    assert (progress.done, progress.unavailable) == (1, [1])


def test_a_refusal_ends_the_run() -> None:
    broker = ScriptedBroker()
    Queue(1).serve(broker)
    broker.operations[REDRIVE] = lambda _: (400, None)
    shell = MemoryShell(broker)
    run = Redriving(shell.connector, "orders", Redrive())
    with pytest.raises(ArgumentInvalid):
        shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, None))


@pytest.mark.parametrize(
    ("wish", "other"),
    [
        (Redrive(to="elsewhere"), "sb://broker.example/elsewhere"),
        (Redrive(to_source=True), "sb://broker.example/"),
    ],
)
def test_tokens_are_put_for_where_messages_go(wish: Redrive, other: str) -> None:
    broker = ScriptedBroker()
    Queue(1).serve(broker)
    shell = MemoryShell(broker)
    run = Redriving(shell.connector, "orders", wish)
    shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, None))
    assert other in [audience for audience, _ in broker.tokens]


def test_a_purge_says_which_state_it_means() -> None:
    broker = ScriptedBroker()
    queue = Queue(1)
    queue.serve(broker)
    broker.operations["bendybus:delete-selected-messages"] = broker.operations[REDRIVE]
    shell = MemoryShell(broker)
    run = Purging(shell.connector, "orders", Purge(state=MessageState.DEFERRED, filter="a = 1"))
    progress = shell.run(whole_run(run, lambda: shell.time + LIFE_SECONDS, None))
    assert progress.done == 1
    assert (queue.asked[0]["message-state"], queue.asked[0]["filter"]) == (1, "a = 1")
