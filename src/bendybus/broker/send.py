"""send: messages come in, and are accepted once they are on disk."""

import asyncio
from collections.abc import Sequence

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import (
    EntityDisabled,
    InvalidOperation,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.model.partitioning import fragment_for, key_of

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
    has_duplicate_detection = queue.properties.requires_duplicate_detection
    count = len(queue.main.sources)
    groups: dict[FragmentIndex | None, list[int]] = {}
    for at, message in enumerate(messages):
        key = key_of(message, has_duplicate_detection=has_duplicate_detection)
        fragment = KEYLESS if key is None else fragment_for(key, count)
        groups.setdefault(fragment, []).append(at)
    return groups


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


def check_open_for_send(queue: ServedQueue) -> None:
    """Refuse when the entity's status forbids sending."""
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
    instants = [set_expiry(queue, messages, now) for messages in parts]
    soonest = min((each for each in instants if each is not None), default=None)
    if fragment is not None:
        return await _append(queue, queue.main.sources[fragment], parts, now, soonest)
    refusal: StoreUnavailable | QuotaExceeded | None = None
    for source in queue.rotation():
        try:
            return await _append(queue, source, parts, now, soonest)
        except (StoreUnavailable, QuotaExceeded) as error:
            refusal = error
    assert refusal is not None, "a queue has at least one fragment"
    raise refusal


def set_expiry(queue: ServedQueue, messages: Sequence[Message], now: Instant) -> Instant | None:
    """Set when each message expires: after its own time to live or the queue's, the shorter.

    One that is scheduled begins to live when its time comes. Returns the first of all these
    instants, if there is any.
    """
    default = queue.time_to_live_ms
    soonest: Instant | None = None
    for message in messages:
        own = message.time_to_live_ms
        begins_at = now
        if message.scheduled_at is not None and message.scheduled_at > now:
            begins_at = message.scheduled_at
            soonest = begins_at if soonest is None else min(soonest, begins_at)
        if own is not None:
            life = own if default is None else min(own, default)
        elif default is not None:
            life = default
        else:
            continue
        message.expires_at = Instant(begins_at + life)
        if soonest is None or message.expires_at < soonest:
            soonest = message.expires_at
    return soonest


async def _append(
    queue: ServedQueue,
    source: Source,
    parts: Sequence[Sequence[Message]],
    now: Instant,
    soonest: Instant | None,
) -> list[int]:
    if not source.store.is_online:
        raise queue.unavailable(source)
    since = queue.duplicates_since(source, now)
    operations = [
        Append(source.number, messages, queue.fragment_bytes_max, since) for messages in parts
    ]
    if soonest is not None:
        source.timetable.note(soonest)
    try:
        answers = await source.store.apply(operations, now=now)
    except QuotaExceeded as error:
        raise QuotaExceeded(
            f"The maximum size of the messaging entity '{queue.name}' has been reached in fragment"
            f" {source.fragment}. {error}"
        ) from error
    except StoreUnavailable as error:
        raise queue.unavailable(source) from error
    except asyncio.CancelledError:
        # The lane may still apply it; whoever waits must look.
        queue.main.note_arrived(source, parts)
        raise
    queue.main.note_arrived(source, parts)
    return [answer for answer in answers if isinstance(answer, int)]
