"""What the parts of the contract share: the store under test, its queues, and short verbs."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import pytest

from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber, SubQueue
from bendybus.model.message import Lock, Message, StoredMessage
from bendybus.model.operations import Answer, Append
from bendybus.store.port import Acquire, EntityRecord, FragmentPlace, Store

HERE: Final = StoreNumber(0)
ELSEWHERE: Final = StoreNumber(1)

# A conventional queue, and a partitioned one with a fragment here that is not the first.
FRAGMENT_HERE: Final = 5
ORDERS: Final = EntityRecord(
    EntityNumber(1), Queue("orders"), 1, (FragmentPlace(HERE, QueueNumber(1)),)
)
EVENTS: Final = EntityRecord(
    EntityNumber(2),
    Queue("events", QueueProperties(enable_partitioning=True)),
    1,
    tuple(
        FragmentPlace(HERE if fragment == FRAGMENT_HERE else ELSEWHERE, QueueNumber(5))
        for fragment in range(16)
    ),
)
MAIN: Final = ORDERS.places[0].queue(SubQueue.MAIN)
DEAD: Final = ORDERS.places[0].queue(SubQueue.DEAD_LETTER)
PART: Final = EVENTS.places[FRAGMENT_HERE].queue(SubQueue.MAIN)

ROOMY: Final = 1 << 40
PAGE_MESSAGES: Final = 10_000
LOCK_MS: Final = 60_000
Test = TypeVar("Test", bound=Callable[..., object])


class StoreMaker(Protocol):
    """Opens the store under test, and can do to its data what a bad disk would."""

    async def __call__(self) -> Store:
        """Return store number 0, open on the same data every time; closes the one before."""
        ...

    def spoil_content(self, queue: QueueNumber, sequence: int) -> None:
        """Change one byte of a message's content behind the store's back."""
        ...

    def lose_content(self, queue: QueueNumber, sequence: int) -> None:
        """Make a message's content disappear behind the store's back."""
        ...

    def spoil_marks(self, queue: QueueNumber, sequence: int) -> None:
        """Change one character of a message's marks behind the store's back."""
        ...

    def spoil_chunk(self, chunk: int) -> None:
        """Change one byte of a chunk of staged messages behind the store's back."""
        ...


def promise(number: int) -> Callable[[Test], Test]:
    """Say which promise of `MessageStore` a test checks."""

    def mark(test: Test) -> Test:
        test.__dict__["promise"] = number
        return test

    return mark


class StoreSubject:
    """The store under test, open and with its two entities."""

    @pytest.fixture
    def make_store(self) -> StoreMaker:
        """Supply the store to be proved."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, make_store: StoreMaker) -> Store:
        """Return the store with an orders queue and a fragment of the events queue."""
        store = await make_store()
        await store.put_entities([ORDERS])
        await store.put_entities([EVENTS])
        return store


def after(seconds: float) -> Instant:
    """Return noon, and so many seconds later."""
    return Instant(1_800_000_000_000 + int(seconds * 1000))


NOON: Final = after(0)


async def send(
    store: Store, *contents: bytes, queue: QueueNumber = MAIN, now: Instant = NOON
) -> list[int]:
    """Append messages; return their sequence numbers."""
    operation = Append(queue, [Message(content) for content in contents], ROOMY)
    first = number_of(await store.apply([operation], now=now))
    return list(range(first, first + len(contents)))


async def lock(
    store: Store,
    count: int = 100,
    *,
    queue: QueueNumber = MAIN,
    nonce: int = 1,
    now: Instant = NOON,
) -> list[StoredMessage]:
    """Acquire messages for a minute."""
    wish = Acquire(queue, count, ROOMY, Instant(now + LOCK_MS), nonce)
    return await store.acquire(wish, now=now)


async def browse(store: Store, queue: QueueNumber = MAIN) -> list[StoredMessage]:
    """Read all of a queue, however long it is."""
    found: list[StoredMessage] = []
    while True:
        first = found[-1].sequence + 1 if found else 0
        page = await store.browse(
            queue, from_sequence=first, count_max=PAGE_MESSAGES, bytes_max=ROOMY
        )
        if not page:
            return found
        found += page


async def contents_of(store: Store, queue: QueueNumber = MAIN) -> list[bytes]:
    """Return the contents of all of a queue."""
    return [message.content for message in await browse(store, queue)]


def contents(messages: Sequence[StoredMessage]) -> list[bytes]:
    """Return the contents alone."""
    return [message.content for message in messages]


def locks(messages: Sequence[StoredMessage]) -> list[Lock]:
    """Return the locks alone."""
    return [message.lock for message in messages]


def number_of(answers: list[Answer]) -> int:
    """Return the only answer, a sequence number."""
    [answer] = answers
    assert isinstance(answer, int)
    return answer
