"""What a transaction ought to be refused, and what its commit ought to do (R5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bendybus.model.ids import SubQueue, fragment_of
from bendybus.model.message import Lock, Message
from bendybus.model.outcome import Outcome
from bendybus.model.partitioning import fragment_for

MESSAGES_MAX: Final = 6
SECONDS_MAX: Final = 30


class Target(NamedTuple):
    """A queue that is sent to, and how many fragments it has."""

    name: str
    fragment_count: int


class Home(NamedTuple):
    """The fragment that the whole transaction is written to."""

    name: str
    fragment: int


class Settled(NamedTuple):
    """A settlement that has joined."""

    name: str
    place: SubQueue
    lock: Lock
    outcome: Outcome


def place_of(to: Target, message: Message) -> Home:
    """Return the fragment that a message is meant for."""
    if to.fragment_count == 1 or message.partition_key is None:
        return Home(to.name, 0)
    return Home(to.name, fragment_for(message.partition_key, to.fragment_count))


@dataclass(slots=True)
class Pending:
    """An open transaction, as its client knows it."""

    number: bytes
    ends_at: int
    home: Home | None = None
    # Once a part was refused, all of it is.
    is_doomed: bool = False
    sends: list[tuple[Home, Message]] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)

    def can_send(self, to: Target, messages: Sequence[Message]) -> bool:
        """Say whether messages may join: on a partitioned queue all have one key, and the same."""
        if not self._has_room(len(messages)):
            return False
        if to.fragment_count == 1:
            return True
        keys = {message.partition_key for message in messages}
        keys |= {message.partition_key for place, message in self.sends if place.name == to.name}
        return len(keys) == 1 and keys != {None}

    def send(self, to: Target, messages: Sequence[Message]) -> None:
        """Let messages join."""
        for message in messages:
            place = place_of(to, message)
            self.sends.append((place, message))
            self.home = self.home or place

    def can_settle(self, name: str, place: SubQueue, locks: Sequence[Lock]) -> bool:
        """Say whether settlements may join, if the locks hold: all of the home, each once."""
        homes = {Home(name, fragment_of(lock.sequence)) for lock in locks}
        homes |= {self.home} if self.home is not None else set()
        before = {(each.name, each.place, each.lock.sequence) for each in self.settled}
        is_repeated = any((name, place, lock.sequence) in before for lock in locks)
        return len(homes) == 1 and not is_repeated and self._has_room(len(locks))

    def settle(self, name: str, place: SubQueue, locks: Sequence[Lock], outcome: Outcome) -> None:
        """Let settlements join."""
        self.settled += [Settled(name, place, lock, outcome) for lock in locks]
        self.home = Home(name, fragment_of(locks[0].sequence))

    def _has_room(self, count: int) -> bool:
        return len(self.sends) + len(self.settled) + count <= MESSAGES_MAX
