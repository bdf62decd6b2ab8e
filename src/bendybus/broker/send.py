"""send: messages come in, and are accepted once they are on disk."""

import asyncio
from collections.abc import Awaitable, Sequence

from bendybus.broker.admit import Admission, admit
from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.broker.served_topic import ServedSubscription, ServedTopic
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import (
    EntityDisabled,
    InvalidOperation,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, Instant, SubQueue
from bendybus.model.message import Message
from bendybus.model.operations import Answer
from bendybus.model.partitioning import key_of, places_by_fragment

# The group of messages that have no key: any fragment may take them.
KEYLESS = None


def group_by_fragment(
    queue: ServedQueue, messages: Sequence[Message]
) -> dict[FragmentIndex | None, list[int]]:
    """Say which messages (by index) go together; the keyless ones form one group (R2.1, R2.4).

    One group, and so one fragment, for all the keyless messages that arrived together: a commit
    of many messages costs little more than one of few, and the next arrival takes the next
    fragment, so the spread stays even.
    """
    if not queue.is_partitioned:
        return {FragmentIndex(0): list(range(len(messages)))}
    return places_by_fragment(
        messages,
        len(queue.main.sources),
        has_duplicate_detection=queue.properties.requires_duplicate_detection,
    )


def check_one_key(queue: ServedQueue, batch: Sequence[Message]) -> None:
    """Refuse an atomic batch with two keys: it could not be kept in one fragment."""
    if not queue.is_partitioned:
        return
    # Ids do not count: where they are the keys, a batch is taken apart, see `group_by_fragment`.
    # If a part of it fails, it is sent again, and what was stored is a duplicate by then.
    keys = {key_of(each, has_duplicate_detection=False) for each in batch}
    if len(keys - {None}) > 1:
        raise InvalidOperation(
            f"A batch sent to the partitioned entity '{queue.name}' has messages with different"
            " keys (SessionId or PartitionKey). Send them in batches of one key each."
        )


def check_takes_messages(queue: ServedQueue, sub_queue: SubQueue) -> None:
    """Refuse to send to what only the broker fills."""
    if sub_queue is not SubQueue.MAIN:
        raise InvalidOperation("Messages cannot be sent to a dead-letter queue.")
    if isinstance(queue, ServedSubscription):
        raise InvalidOperation(
            f"Messages cannot be sent to a subscription; send them to '{queue.topic.name}'."
        )


def check_open_for_send(queue: ServedQueue) -> None:
    """Refuse when the entity is gone, or its status forbids sending."""
    queue.check_there()
    if not queue.properties.status.allows_send:
        raise EntityDisabled(f"The messaging entity '{queue.name}' is disabled for sending.")


def check_session_ids(queue: ServedQueue, messages: Sequence[Message]) -> None:
    """Refuse a message of no session where messages are received by session."""
    if queue.main.has_sessions and any(message.session_id is None for message in messages):
        raise InvalidOperation(
            "The SessionId was not set on a message, and it cannot be sent to the entity. Entities"
            " that have session support enabled can only receive messages that have the SessionId"
            " set to a valid value."
        )


async def send(
    queue: ServedQueue,
    messages: Sequence[Message],
    fragment: FragmentIndex | None,
    clock: Clock,
) -> None:
    """Store messages in one fragment, all or none; durable on return.

    With a key the fragment is given, and its refusal is final (R2.5). Without one the next in
    turn takes them, or another that is online and has room. Cancelled: applied or not, never
    half.
    """
    await send_numbered(queue, [messages], fragment, clock)


async def send_numbered(
    queue: ServedQueue,
    parts: Sequence[Sequence[Message]],
    fragment: FragmentIndex | None,
    clock: Clock,
) -> list[int]:
    """Do as `send` for all parts together; return of each the number of its first message.

    The rest of a part follow on. 0: all of it were duplicates.
    """
    if queue.properties.status is not EntityStatus.ACTIVE:
        check_open_for_send(queue)
    now = clock.now()
    if fragment is not None:
        return await _store(queue, queue.main.sources[fragment], parts, now)
    refusal: StoreUnavailable | QuotaExceeded | None = None
    for source in queue.rotation():
        try:
            return await _store(queue, source, parts, now)
        except (StoreUnavailable, QuotaExceeded) as error:
            refusal = error
    assert refusal is not None, "a queue has at least one fragment"
    raise refusal


async def _store(
    queue: ServedQueue, source: Source, parts: Sequence[Sequence[Message]], now: Instant
) -> list[int]:
    if not source.store.is_online:
        raise queue.unavailable(source)
    if isinstance(queue, ServedTopic):
        async with queue.evaluating:
            admissions, applied = await _begin(queue, source, parts, now)
    else:
        admissions, applied = await _begin(queue, source, parts, now)
    try:
        answers = await applied
    except QuotaExceeded as error:
        raise QuotaExceeded(
            f"The maximum size of the messaging entity '{queue.name}' has been reached in fragment"
            f" {source.fragment}. {error}"
        ) from error
    except StoreUnavailable as error:
        raise queue.unavailable(source) from error
    except asyncio.CancelledError:
        # The lane may still apply it; whoever waits must look.
        for admission in admissions:
            admission.tell()
        raise
    for admission in admissions:
        admission.tell()
    if queue.traces is not None:
        for messages in parts:
            queue.traces.note_sent(queue.name, source.fragment, messages, came_at=now)
    return _numbers(admissions, answers)


async def _begin(
    queue: ServedQueue, source: Source, parts: Sequence[Sequence[Message]], now: Instant
) -> tuple[list[Admission], Awaitable[list[Answer]]]:
    """Tell the store what to write; it is under way, in this order, on return."""
    admissions = [await admit(queue, source, messages, now) for messages in parts]
    operations = [operation for each in admissions for operation in each.operations]
    for admission in admissions:
        admission.announce()
    return admissions, source.store.apply(operations, now=now)


def _numbers(admissions: Sequence[Admission], answers: Sequence[Answer]) -> list[int]:
    """Return the first answer to each admission."""
    numbers: list[int] = []
    at = 0
    for admission in admissions:
        number = answers[at]
        assert isinstance(number, int), "letting messages in is answered with a number"
        numbers.append(number)
        at += len(admission.operations)
    return numbers
