"""What can be asked of `MessageStore.scan`."""

import json
from dataclasses import dataclass
from typing import Final

from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import MessageState

_FOREVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Scan:
    """A wish to read part of a queue: which messages, and how many of them at once.

    At most so many messages and bytes, unless one alone is more. `until_sequence` is the first
    number beyond. Of what is not said, all is meant.
    """

    queue: QueueNumber
    from_sequence: int
    until_sequence: int
    count_max: int
    bytes_max: int
    # Contents take most of the time, and some readers want only what stands beside them.
    has_contents: bool = True
    # Of messages that still are columns: whether bodies are wanted, and what is beside them.
    has_bodies: bool = True
    has_texts: bool = True
    states: tuple[MessageState, ...] | None = None
    # What is reserved under this number, all of it, and nothing else is asked for then.
    reservation: int | None = None
    enqueued_from: Instant | None = None
    enqueued_until: Instant | None = None
    session_ids: tuple[str, ...] | None = None
    partition_keys: tuple[str, ...] | None = None

    @property
    def is_choosy(self) -> bool:
        """Whether it wants only some of the messages between its numbers."""
        return any(
            each is not None
            for each in (
                self.states,
                self.enqueued_from,
                self.enqueued_until,
                self.session_ids,
                self.partition_keys,
            )
        )

    @property
    def choice(self) -> tuple[object, ...]:
        """What is wanted, as statements take it; lists as JSON."""
        return (
            None if self.states is None else json.dumps(self.states),
            self.enqueued_from or 0,
            _FOREVER if self.enqueued_until is None else self.enqueued_until,
            None if self.session_ids is None else json.dumps(self.session_ids),
            None if self.partition_keys is None else json.dumps(self.partition_keys),
        )
