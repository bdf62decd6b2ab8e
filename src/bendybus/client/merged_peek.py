"""Peeked messages of all fragments in one order: by the time at which they were enqueued (R3.5).

A peek goes by sequence numbers. Of each fragment a page is in hand; the oldest message of all that
are in hand comes next, and a fragment of which none is left is asked for more. That is the order of
time as far as numbers are: they are, but for messages that were redriven or dead-lettered, which
keep their time and get a new number, and for scheduled ones, whose time is still to come. So a
scheduled message never stands for its fragment: it waits until one that is not has been seen.
"""

import heapq
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from bendybus.client.message import MessageState, ReceivedMessage
from bendybus.model.ids import COUNTER_BITS, fragment_of

PAGE_MIN: Final = 100
"""So many of each fragment are in hand at first, whose order of numbers does not matter."""
PAGE_MAX: Final = 250
FRAGMENTS_MAX: Final = 1 << 15
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

Ranked = tuple[datetime, int, ReceivedMessage]


class MergedPeek:
    """Says what to peek, is told what was found, and gives the messages one by one.

    At most `count` messages are wanted, of those that pass.
    """

    def __init__(self, count: int, passes: Callable[[ReceivedMessage], bool] | None = None) -> None:
        self.page = min(max(count, PAGE_MIN), PAGE_MAX)
        self._count = count
        self._passes = passes
        self._lines: list[_Line] = []
        # Where the next fragment may begin; None when all are known.
        self._fragment: int | None = 0

    def wanted(self) -> int | None:
        """Return the sequence number to peek from next; None if the next message is in hand."""
        if self._fragment is not None:
            return self._fragment << COUNTER_BITS
        line = self._hungry()
        return None if line is None else line.position

    def take(self, some: Sequence[ReceivedMessage]) -> None:
        """Take what the peek found that was wanted."""
        if self._fragment is None:
            line = self._hungry()
            assert line is not None, "somebody wanted it"
        elif some:
            fragment = fragment_of(some[0].sequence_number or 0)
            line = _Line(fragment, self._count)
            self._lines.append(line)
            self._fragment = fragment + 1 if fragment + 1 < FRAGMENTS_MAX else None
        else:
            self._fragment = None
            return
        line.take(some, self._passes)

    def next(self) -> ReceivedMessage | None:
        """Return the oldest message that is left; None at the end. Nothing may be wanted."""
        lines = [line for line in self._lines if line.in_hand]
        if not lines:
            return None
        return min(lines, key=lambda line: line.in_hand[0][:2]).pop()

    def _hungry(self) -> "_Line | None":
        return next((line for line in self._lines if line.is_hungry), None)


class _Line:
    """What is in hand of one fragment."""

    def __init__(self, fragment: int, kept_max: int) -> None:
        self.position = fragment << COUNTER_BITS
        self.in_hand: list[Ranked] = []
        self._fragment = fragment
        self._kept_max = kept_max
        self._is_over = False
        # Messages in hand that are not scheduled.
        self._present = 0

    @property
    def is_hungry(self) -> bool:
        """Whether an older message may still come than those in hand."""
        return not self._present and not self._is_over

    def take(
        self, some: Sequence[ReceivedMessage], passes: Callable[[ReceivedMessage], bool] | None
    ) -> None:
        """Take what a peek from its position found; behind its end others begin."""
        for message in some:
            number = message.sequence_number or 0
            if fragment_of(number) != self._fragment:
                self._is_over = True
                break
            self.position = number + 1
            if passes is None or passes(message):
                heapq.heappush(self.in_hand, (message.enqueued_time or _NEVER, number, message))
                self._present += message.state is not MessageState.SCHEDULED
        else:
            self._is_over = not some
        # Of very many that are scheduled no more are wanted than of all.
        if not self._present and len(self.in_hand) > 2 * self._kept_max:
            self.in_hand = heapq.nsmallest(self._kept_max, self.in_hand)

    def pop(self) -> ReceivedMessage:
        """Take the oldest out of hand."""
        message = heapq.heappop(self.in_hand)[2]
        self._present -= message.state is not MessageState.SCHEDULED
        return message
