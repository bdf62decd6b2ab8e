"""What a sender's messages wait for: a turn at the fragment that they are bound to.

Messages with keys, of which ids are the most frequent (R2.1), come in no order and go to as many
commits as there are fragments. A commit of many costs little more than one of few, so while there
is much to store few fragments have their turn, and what is bound for the others gathers meanwhile
(decisions/0027). A turn begins when another one ends; nobody waits for time to pass.
"""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from bendybus.model.errors import BusError
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.plain_messages import PlainMessages

# Fragments that may have their turn at once while much is to be stored.
TURNS_MAX: Final = 2
# From so many groups that came together on, they are spread over fragments. Then more have their
# turn: while the loop reads what comes, it begins none, and there is still something to store.
SPREAD_GROUPS: Final = 4
SPREAD_TURNS_MAX: Final = 4
# From so many messages on, a fragment need not wait: little is saved by gathering more, and the
# disk may be one that takes long for each commit and takes many together.
MANY_MESSAGES: Final = 256
# Up to so many in all, every fragment has its turn at once: hardly anything would gather.
FEW_MESSAGES: Final = 200


@dataclass(slots=True)
class Intake:
    """Deliveries that were taken in together, and how many groups of them are not stored yet."""

    delivery_count: int
    payload_bytes: int
    groups_left: int = 0


@dataclass(slots=True)
class SplitBatch:
    """A delivery whose messages are in several groups: answered when none of these is left."""

    delivery_id: int
    is_settled: bool
    groups_left: int
    # Why some of it was refused, and so all of it is.
    refusal: BusError | None = None


@dataclass(slots=True)
class Group:
    """Messages that are stored together, and whom that concerns."""

    fragment: FragmentIndex | None
    # All or none of them, whatever becomes of others: a batch.
    is_whole: bool
    messages: list[Message] | PlainMessages
    # Those to answer when the messages are stored.
    delivery_ids: list[int]
    split_batches: list[SplitBatch]
    intakes: list[Intake]

    def takes(self, other: "Group") -> bool:
        """Say whether another group of the fragment may be stored with this one."""
        is_alike = type(self.messages) is type(other.messages)
        return is_alike and not (self.is_whole or other.is_whole)

    def take(self, other: "Group") -> None:
        """Let the messages of another group follow these."""
        self.messages += other.messages  # type: ignore[operator]  # alike, as `takes` says
        self.delivery_ids += other.delivery_ids
        self.split_batches += other.split_batches
        self.intakes += other.intakes


@dataclass(slots=True)
class _Turn:
    """What is stored when it is a fragment's turn."""

    groups: list[Group]
    message_count: int
    # Once it has begun: how many are not stored yet.
    groups_left: int = 0

    def take(self, group: Group) -> None:
        """Let a group follow the others."""
        self.message_count += len(group.messages)
        if self.groups and self.groups[-1].takes(group):
            self.groups[-1].take(group)
        else:
            self.groups.append(group)


class FragmentTurns:
    """The groups of one link: those that wait, by fragment, and how many fragments are served."""

    def __init__(
        self,
        store: Callable[[Group], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        note_end: Callable[[int], None],
    ) -> None:
        self._store: Final = store
        self._spawn: Final = spawn
        # Told after every turn, before the next one begins, how many messages it had.
        self._note_end: Final = note_end
        # The fragment that has waited longest comes first.
        self._waiting: dict[FragmentIndex | None, _Turn] = {}
        # Whether what came last is for many fragments.
        self.is_spread = False
        # Messages that wait or are being stored.
        self.message_count = 0
        self.running = 0

    @property
    def is_gathering(self) -> bool:
        """Whether what comes waits for the end of a turn, unless a fragment has much by then."""
        return self.running >= self.turns_max and self.message_count > FEW_MESSAGES

    @property
    def turns_max(self) -> int:
        """How many fragments may have their turn at once while much is to be stored."""
        return SPREAD_TURNS_MAX if self.is_spread else TURNS_MAX

    def put(self, groups: Collection[Group]) -> None:
        """Let groups wait for their turns. Within a fragment they are begun in this order."""
        self.is_spread = len(groups) >= SPREAD_GROUPS
        for group in groups:
            turn = self._waiting.get(group.fragment)
            if turn is None:
                turn = self._waiting[group.fragment] = _Turn([], 0)
            turn.take(group)
            self.message_count += len(group.messages)
        self._begin()

    def _begin(self) -> None:
        for fragment, turn in list(self._waiting.items()):
            if (
                self.running < self.turns_max
                or self.message_count <= FEW_MESSAGES
                or turn.message_count >= MANY_MESSAGES
            ):
                del self._waiting[fragment]
                self.running += 1
                # Begun in this order, which is what keeps it.
                turn.groups_left = len(turn.groups)
                for group in turn.groups:
                    self._spawn(self._serve(turn, group))

    async def _serve(self, turn: _Turn, group: Group) -> None:
        await self._store(group)
        turn.groups_left -= 1
        if turn.groups_left:
            return
        self.running -= 1
        self.message_count -= turn.message_count
        self._note_end(turn.message_count)
        self._begin()
