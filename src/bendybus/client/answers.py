"""What the broker said about each of several deliveries, gathered while the answers come."""

from typing import Final

from bendybus.amqp.outcomes import Accepted, Rejected, TransactionalState
from bendybus.client.errors import ClientError, PartlyFailed, ServerBusy, error_of

DEAD_LETTER_CONDITION: Final = "com.microsoft:dead-letter"

_UNTRIED: Final = 0
_TRIED: Final = 1
_ANSWERED: Final = 2


class Answers:
    """The fate of a call's messages, by index. One byte each, because calls may be large."""

    __slots__ = ("_marks", "_others", "waiting")

    def __init__(self, count: int) -> None:
        self._marks = bytearray(count)
        self._others: dict[int, object] = {}
        """What was answered where it was not a plain accepted."""
        self.waiting = count
        """How many have no answer yet."""

    def note_tried(self, index: int) -> None:
        """Note that a message was handed to the connection."""
        self._marks[index] = _TRIED

    def note(self, index: int, state: object) -> None:
        """Note the one answer that a message gets."""
        self._marks[index] = _ANSWERED
        self.waiting -= 1
        if type(state) is not Accepted:
            self._others[index] = state

    def state(self, index: int) -> object:
        """Return what was answered to a message that has an answer."""
        return self._others.get(index, Accepted())

    def raise_failures(self, cause: ClientError | None, *, is_send: bool) -> None:
        """Raise if anything was refused, or if `cause` kept some from being answered.

        For a single message the error is its own; for several it says which.
        """
        refused = {
            index: error
            for index, state in self._others.items()
            if (error := refusal_in(state, is_send=is_send)) is not None
        }
        first = cause or next(iter(refused.values()), None)
        if first is None:
            return
        if len(self._marks) == 1 or (_TRIED not in self._marks and _ANSWERED not in self._marks):
            raise first
        raise PartlyFailed(
            first,
            done=[index for index in self._indices(_ANSWERED) if index not in refused],
            refused=refused,
            unknown=self._indices(_TRIED),
            untried=self._indices(_UNTRIED),
        ) from first

    def _indices(self, mark: int) -> list[int]:
        return [index for index, each in enumerate(self._marks) if each == mark]


def refusal_in(state: object, *, is_send: bool) -> ClientError | None:
    """Return the error that an answer is, or None if it says that the thing was done.

    A message sent is taken by nothing but accepted. A settlement is confirmed by its own kind of
    outcome and refused by a rejection with an error.
    """
    if isinstance(state, ClientError):
        return state
    if isinstance(state, TransactionalState):
        return refusal_in(state.outcome, is_send=is_send)
    if isinstance(state, Rejected) and (is_send or not _confirms_dead_letter(state)):
        return error_of(state.error)
    if is_send and not isinstance(state, Accepted):
        name = "nothing" if state is None else type(state).__name__.lower()
        return ServerBusy(f"The broker did not take the message: it answered {name}.")
    return None


def _confirms_dead_letter(state: Rejected) -> bool:
    """Tell a confirmation from a refusal: the first has no error, or at most our own words."""
    return state.error is None or state.error.condition == DEAD_LETTER_CONDITION
