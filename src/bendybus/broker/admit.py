"""admit: what to write so that messages are in an entity, whatever its kind, and whom to tell."""

from collections.abc import Sequence
from typing import NamedTuple

from bendybus.broker.expiry import set_expiry
from bendybus.broker.publish import Arrival, publication_of
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append, Publish, Transfer
from bendybus.model.plain_messages import PlainMessages


class Admission(NamedTuple):
    """The writes that let messages in, to be applied together, and who gets them."""

    operations: list[Append | Publish]
    arrivals: list[Arrival]

    def announce(self) -> None:
        """Let the sweep know what will be due. Before the writes: they may be done at once."""
        for _, source, _, soonest in self.arrivals:
            if soonest is not None:
                source.timetable.note(soonest)

    def tell(self) -> None:
        """Wake who waits for the messages."""
        for sub_queue, source, messages, _ in self.arrivals:
            sub_queue.note_arrived(source, messages)


async def admit(
    queue: ServedQueue,
    source: Source,
    messages: Sequence[Message],
    now: Instant,
    transfers: Sequence[Transfer] | None = None,
) -> Admission:
    """Decide how messages get into a fragment of a queue or a topic.

    A queue's answer is that of its one operation. A topic keeps what is scheduled for later, and
    publishes the rest; for messages of one kind that is one operation, too.
    """
    queue.note_use()
    since = queue.duplicates_since(source, now)
    if isinstance(messages, PlainMessages) and queue.time_to_live_ms is not None:
        # The queue was changed while they were on their way: now they expire.
        messages = list(messages)
    if not isinstance(queue, ServedTopic):
        soonest = set_expiry(queue, messages, now)
        operation = Append(source.number, messages, queue.fragment_bytes_max, since, transfers)
        return Admission([operation], [Arrival(queue.main, source, messages, soonest)])
    later = [each for each in messages if each.scheduled_at is not None and each.scheduled_at > now]
    if not later:
        publication = await publication_of(queue, source, messages, now)
        return Admission([publication.operation(since, transfers)], publication.arrivals)
    assert transfers is None, "what comes from another queue has been through its delay there"
    soonest = set_expiry(queue, later, now)
    append = Append(source.number, later, queue.fragment_bytes_max, since)
    delayed = Admission([append], [Arrival(queue.main, source, later, soonest)])
    if len(later) == len(messages):
        return delayed
    at_once = [each for each in messages if each.scheduled_at is None or each.scheduled_at <= now]
    publication = await publication_of(queue, source, at_once, now)
    return Admission(
        [publication.operation(since), *delayed.operations],
        [*publication.arrivals, *delayed.arrivals],
    )
