"""A world in which messages are taken from one queue to another while everything else happens.

Whoever takes them works beside every step, as in a broker. Before the queues are looked at, the
world comes to rest: no message is left that could go on. Where the destination is away, messages
for it must still be where they came from; all others must have arrived, each of them once.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bendybus.broker.send import group_by_fragment
from bendybus.model.forwarding import HOPS_MAX, fragment_at
from bendybus.model.ids import SubQueue
from bendybus.model.message import Marks, Message, MessageState, StoredMessage
from bendybus.store.port import UNTIL_REOPENED
from bendybus.testing.local_broker import forwarding
from tests.history.queue_model import UNKNOWN, Expected
from tests.history.queue_world import QueueWorld, look_at

REST_SECONDS_MAX: Final = 10.0
POLL_SECONDS: Final = 0.002
# Behind every number that was given.
LAST: Final = 1 << 63


class Outbox(NamedTuple):
    """A sub-queue whose messages go elsewhere."""

    name: str
    place: SubQueue


class ForwardingWorld(QueueWorld):
    """Queues of which some forward to others."""

    places = (SubQueue.MAIN, SubQueue.DEAD_LETTER, SubQueue.TRANSFER_DEAD_LETTER)

    # Whether messages are taken on from the start; if not, from `begin_forwarding` on.
    is_forwarding_at_once = True

    async def open(self) -> None:
        await super().open()
        if self.is_forwarding_at_once:
            await self.begin_forwarding()

    async def begin_forwarding(self) -> None:
        await self.running.enter_async_context(forwarding(self.broker))

    def outboxes(self) -> Sequence[Outbox]:
        """Return all sub-queues from which messages are taken."""
        return [
            Outbox(name, place)
            for name in self.models
            for place in self.places
            if place is SubQueue.TRANSFER or self.forwards_to(name, place) is not None
        ]

    def forwards_to(self, name: str, place: SubQueue) -> str | None:
        """Return where messages of a sub-queue are to go."""
        return self.served(name).sub_queues[place].forwards_to

    def destination(self, outbox: Outbox, marks: Marks | None) -> str:
        """Return where a message is to go."""
        if outbox.place is SubQueue.TRANSFER:
            assert marks is not None
            assert marks.destination is not None
            return marks.destination
        name = self.forwards_to(outbox.name, outbox.place)
        assert name is not None
        return name

    def note_switched(self) -> None:
        """A sweep must see that a store is back, before anything there is taken on."""
        self.sweep()

    # Coming to rest

    def come_to_rest(self) -> None:
        shown = self.run(self.at_rest())
        while any(self.note_forwarded(*each) for each in shown.items()):
            continue

    async def at_rest(self) -> dict[Outbox, list[StoredMessage]]:
        """Wait until nothing can be taken any further; return what is left in the outboxes."""
        before: dict[Outbox, list[StoredMessage]] | None = None
        try:
            async with asyncio.timeout(REST_SECONDS_MAX):
                while True:
                    outboxes = self.outboxes()
                    places = [self.served(each.name).sub_queues[each.place] for each in outboxes]
                    found = await asyncio.gather(*map(look_at, places))
                    shown = dict(zip(outboxes, found, strict=True))
                    if any(self.can_go_on(*each) for each in shown.items()):
                        await asyncio.sleep(POLL_SECONDS)
                    elif shown == before:
                        return shown
                    # What went just now to where had been looked already is found the next time.
                    before = shown
        except TimeoutError:
            raise AssertionError("messages are not taken on, though they could be") from None

    def can_go_on(self, outbox: Outbox, messages: list[StoredMessage]) -> bool:
        return any(
            message.state == MessageState.ACTIVE
            and message.locked_until in (None, UNTIL_REOPENED)
            and (message.expires_at is None or message.expires_at > self.now)
            and self.is_destination_online(outbox, message)
            for message in messages
        )

    def is_destination_online(self, outbox: Outbox, message: StoredMessage) -> bool:
        name = self.destination(outbox, message.marks)
        fragment = fragment_at(
            Message(b"", partition_key=message.partition_key, session_id=message.session_id),
            message.sequence,
            len(self.served(name).main.sources),
            has_duplicate_detection=False,
        )
        return self.is_online(name, fragment)

    # What that means to the models

    def note_forwarded(self, outbox: Outbox, shown: list[StoredMessage]) -> bool:
        """Note which messages are held until they can go on, and take on the others."""
        model = self.models[outbox.name]
        by_content = {message.content: message for message in shown}
        is_any_gone = False
        # What has waited here for long goes in the order of its numbers.
        for expected in sorted(model.held_in(outbox.place), key=lambda each: each.sequence or LAST):
            message = by_content.get(expected.content)
            # What is here with more hops has been round a ring.
            if message is not None and hops_of(message.marks) == hops_of(expected.marks):
                _note_held(expected, message)
            elif expected.fragment is None or self.is_message_online(outbox.name, expected):
                assert expected.state is MessageState.ACTIVE, "only active messages are taken on"
                assert expected.locked_until in (None, UNTIL_REOPENED), "taken though it was locked"
                del model.messages[expected.content]
                self.note_taken_on(outbox, expected)
                is_any_gone = True
        return is_any_gone

    def note_taken_on(self, outbox: Outbox, expected: Expected) -> None:
        marks = expected.marks or Marks()
        if outbox.place is not SubQueue.TRANSFER and (marks.hops or 0) >= HOPS_MAX:
            self.note_stopped(outbox, expected, marks)
            return
        to = self.destination(outbox, expected.marks)
        if outbox.place is SubQueue.TRANSFER:
            marks = replace(marks, destination=None)
        else:
            first = marks.enqueued_sequence or expected.first_sequence or UNKNOWN
            marks = replace(marks, hops=(marks.hops or 0) + 1, enqueued_sequence=first)
        [fragment] = group_by_fragment(
            self.served(to),
            [Message(b"", session_id=expected.session_id, partition_key=expected.key)],
        )
        self.models[to].add(
            Expected(
                expected.content,
                expected.key,
                self.now,
                expected.expires_at,
                expected.session_id,
                fragment=fragment,
                marks=None if marks == Marks() else marks,
                order_group=self.order_group(outbox, expected, to),
            )
        )

    def note_stopped(self, outbox: Outbox, expected: Expected, marks: Marks) -> None:
        """Note a message that may not be forwarded once more."""
        expected.marks = replace(
            marks,
            dead_letter_reason="MaxTransferHopCountExceeded",
            dead_letter_description=(
                f"The message was forwarded {HOPS_MAX} times and may not be forwarded on to"
                f" '{self.destination(outbox, marks)}'."
            ),
            dead_letter_source=outbox.name,
        )
        expected.place, expected.sequence = SubQueue.TRANSFER_DEAD_LETTER, None
        expected.locked_until = expected.nonce = expected.expires_at = None
        self.models[outbox.name].messages[expected.content] = expected

    def order_group(self, outbox: Outbox, expected: Expected, to: str) -> object:
        """Return what the message is in one line with: others that went the same way.

        On fragments that is the way of a key. Dead letters came in an order of their own.
        """
        if outbox.place is SubQueue.DEAD_LETTER:
            return object()
        queues = [self.served(outbox.name), self.served(to)]
        if not any(queue.is_partitioned for queue in queues):
            return outbox
        return object() if expected.key is None else (outbox, expected.key)


def hops_of(marks: Marks | None) -> int:
    """Return how often a message was forwarded."""
    return 0 if marks is None else marks.hops or 0


def _note_held(expected: Expected, message: StoredMessage) -> None:
    if UNTIL_REOPENED in (message.locked_until, expected.locked_until):
        expected.locked_until, expected.nonce = message.locked_until, message.nonce
