"""Which sends and settlements may belong to one transaction (R5).

A transaction is kept by one fragment of the first entity that it uses, its *home*, because only
there can everything be written in one commit:

1. settlements are of messages in the home, and of nothing else;
2. what is sent to the home is written there at the commit;
3. what is sent anywhere else is written to the home's transfer queue, and taken on from there
   (R5.6).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bendybus.model.errors import InvalidOperation, QuotaExceeded
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.partitioning import check_keys, fragment_for, key_of

# What open transactions of one connection may hold in memory: a hundred messages of 256 KiB, and
# some more.
BUFFERED_BYTES_MAX: Final = 32 * 1024 * 1024
# Open transactions of one connection.
OPEN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """What one transaction may be."""

    messages_max: int = 100
    seconds_max: int = 120


@dataclass(frozen=True, slots=True)
class Destination:
    """What the rules need to know of an entity that is sent to."""

    name: str
    fragment_count: int
    is_partitioned: bool
    requires_session: bool
    has_duplicate_detection: bool


@dataclass(frozen=True, slots=True)
class Via:
    """An entity by way of which a client sends to another, and the key that it has there."""

    entity: Destination
    key: str | None


@dataclass(frozen=True, slots=True)
class Home:
    """The fragment that keeps a transaction."""

    entity: str
    fragment: FragmentIndex


class TransactionScope:
    """What a transaction has been used for, and whether the next thing may join it."""

    def __init__(self, messages_max: int) -> None:
        self.home: Home | None = None
        self._messages_max = messages_max
        self._count = 0
        # Of each partitioned entity, the one key of all that is sent to it.
        self._keys: dict[str, str] = {}

    def join_send(
        self, to: Destination, messages: Sequence[Message], via: Via | None = None
    ) -> Home:
        """Let messages join; return the fragment they are meant for.

        With `via` they go by way of an entity that the client named, which becomes the home if
        there is none yet. Refused, the transaction is as it was.
        """
        key = _key_of_all(to, messages)
        if key is not None and self._keys.get(to.name, key) != key:
            raise _two_keys(to, self._keys[to.name], key)
        place = Home(to.name, _fragment(to, key))
        through = place if via is None else self._place_of(via)
        self._count_in(len(messages))
        if key is not None:
            self._keys[to.name] = key
        if self.home is None:
            self.home = through
        return place

    def join_settlement(self, place: Home, count: int) -> None:
        """Let settlements join of messages that lie there. Refused, all is as it was."""
        if self.home is not None and self.home.entity != place.entity:
            raise InvalidOperation(
                f"The transaction belongs to '{self.home.entity}', the first entity that it used,"
                f" so messages of '{place.entity}' cannot be settled in it. Settle first, then"
                " send, or use a transaction for each."
            )
        if self.home is not None and self.home.fragment != place.fragment:
            raise InvalidOperation(
                f"The transaction belongs to fragment {self.home.fragment} of the partitioned"
                f" entity '{place.entity}', so a message of fragment {place.fragment} cannot be"
                " settled in it. Settle messages of one key in one transaction."
            )
        self._count_in(count)
        self.home = place

    def _place_of(self, via: Via) -> Home:
        """Return the fragment that a client sends by way of."""
        name, key = via.entity.name, via.key
        home = self.home
        if home is not None and home.entity != name:
            raise InvalidOperation(
                f"The transaction belongs to '{home.entity}', the first entity that it used, so"
                f" nothing can be sent by way of '{name}' in it."
            )
        if home is not None and (key is None or _fragment(via.entity, key) == home.fragment):
            return home
        if home is not None or (key is None and via.entity.is_partitioned):
            raise InvalidOperation(
                f"What a transaction sends by way of the partitioned entity '{name}' must have one"
                " TransactionPartitionKey."
            )
        return Home(name, _fragment(via.entity, key))

    def _count_in(self, count: int) -> None:
        if self._count + count > self._messages_max:
            raise QuotaExceeded(
                f"A transaction can have at most {self._messages_max} messages; this one would"
                f" have {self._count + count}."
            )
        self._count += count


def check_sessions(to: Destination, messages: Sequence[Message]) -> None:
    """Refuse a message that a session entity cannot keep in order (R5.2)."""
    for message in messages:
        check_keys(message)
        if to.requires_session and message.session_id is None:
            raise InvalidOperation(
                f"The entity '{to.name}' requires sessions, so a message sent to it in a"
                " transaction must have a SessionId."
            )


def _key_of_all(to: Destination, messages: Sequence[Message]) -> str | None:
    """Return the one key of messages to a partitioned entity (R5.1, R5.3); None to another."""
    check_sessions(to, messages)
    if not to.is_partitioned:
        return None
    found: str | None = None
    for message in messages:
        key = key_of(message, has_duplicate_detection=to.has_duplicate_detection)
        if key is None:
            raise InvalidOperation(
                f"A message sent to the partitioned entity '{to.name}' in a transaction must have"
                f" {_keys_of(to)}."
            )
        if found is not None and key != found:
            raise _two_keys(to, found, key)
        found = key
    return found


def _fragment(to: Destination, key: str | None) -> FragmentIndex:
    return FragmentIndex(0) if key is None else fragment_for(key, to.fragment_count)


def _two_keys(to: Destination, first: str, second: str) -> InvalidOperation:
    return InvalidOperation(
        f"All messages that one transaction sends to the partitioned entity '{to.name}' must have"
        f" one key, {_keys_of(to)}; '{second}' came after '{first}'."
    )


def _keys_of(to: Destination) -> str:
    """Say what can be a key of a message that is sent there (R2.1)."""
    if to.has_duplicate_detection and not to.requires_session:
        return "a SessionId, a PartitionKey or a MessageId"
    return "a SessionId or a PartitionKey"
