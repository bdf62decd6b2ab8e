"""What the bulk door is asked about, and what it answers, in plain values."""

from dataclasses import dataclass

from bendybus.model.stretches import Positions, Range

__all__ = [
    "Description",
    "Fragment",
    "OpenedReader",
    "Place",
    "Positions",
    "Published",
    "Range",
    "RejectedRow",
    "Reserved",
    "StageLabel",
    "Staged",
]


@dataclass(frozen=True, slots=True)
class Place:
    """An entity, one of its subscriptions, or their dead letters (`deadletter`)."""

    entity: str
    subscription: str | None = None
    sub_queue: str | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """How far a fragment goes; without numbers while its store is away.

    `next_sequence` is the number that the next message gets. The messages have `bytes` at most.
    """

    fragment: int
    store: int
    is_online: bool
    first_sequence: int | None = None
    next_sequence: int | None = None
    messages: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What an entity is like, and its fragments in order."""

    entity: str
    is_topic: bool
    is_partitioned: bool
    requires_session: bool
    max_message_bytes: int
    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class OpenedReader:
    """The token to use a reader by, and the position of each fragment that it is done with."""

    token: str
    committed: dict[int, int]
    skipped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a reader has behind the positions it named: up to which ones, and how much.

    `lag` is how many messages of each fragment nobody has reserved.
    """

    end: dict[int, int]
    lag: dict[int, int]
    messages: int
    bytes: int
    skipped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StageLabel:
    """Whose rows they are: of a writer's batch, one task's, in one attempt of it."""

    writer: str
    batch: int
    task: int
    attempt: int


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that cannot be a message: its number among all that were given, and why."""

    row: int
    why: str


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that are kept, and become messages when the stage is published."""

    stage: str
    rows: int
    bytes: int
    rejected: tuple[RejectedRow, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """How many messages a batch has become; `already` if that was so before.

    Damaged ones are lost: the broker's disk changed their bytes between staging and publishing.
    """

    rows: int
    already: bool
    damaged_rows: int = 0
