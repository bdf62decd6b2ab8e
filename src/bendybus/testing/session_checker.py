"""Judges what clients saw of sessions while their broker was killed, as `history_checker` does.

That one has the rules for messages of any queue, with a session as the key. Beside them:

1. One holder. Nobody accepts a session that somebody else holds, as far as that one knows. (A
   client that loses its connection must note that it holds nothing any more before anything else.)
2. In order. Whoever holds a session is given no message of it while an older one is neither
   completed nor in the same holder's hands. Asking for a completion counts: a broker that dies
   before its answer may have made it.
3. The state is kept. A holder finds the last state that was confirmed, or one that was asked for
   after it and not answered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Left,
    Received,
    Sent,
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Somebody holds a session from now on. A holder is new for every lock."""

    session: str
    holder: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The holder gives the session back, or has lost it."""

    session: str
    holder: str


@dataclass(frozen=True, slots=True)
class StateAsked:
    """A holder asked the broker to keep a state."""

    session: str
    state: bytes


@dataclass(frozen=True, slots=True)
class StateKept:
    """The broker confirmed it."""

    session: str
    state: bytes


@dataclass(frozen=True, slots=True)
class StateSeen:
    """A holder asked for the state."""

    session: str
    state: bytes | None


SessionEntry = (
    Sent
    | Acknowledged
    | Received
    | CompletionAsked
    | Completed
    | Left
    | Accepted
    | Ended
    | StateAsked
    | StateKept
    | StateSeen
)


class SessionRule(Enum):
    """What the broker promised, numbered as above."""

    ONE_HOLDER = 1
    IN_ORDER = 2
    THE_STATE_IS_KEPT = 3


@dataclass(frozen=True, slots=True)
class SessionViolation:
    """A promise that was broken, and in which session."""

    rule: SessionRule
    session: str
    text: str


def check_sessions(log: Sequence[SessionEntry]) -> list[SessionViolation]:
    """Return every violation. One queue, one log; a message's key is its session."""
    return [*_held_twice(log), *_out_of_order(log), *_states_lost(log)]


def _held_twice(log: Sequence[SessionEntry]) -> Iterator[SessionViolation]:
    holders: dict[str, str] = {}
    for entry in log:
        if isinstance(entry, Accepted):
            if entry.session in holders:
                text = f"{entry.holder} accepted what {holders[entry.session]} held"
                yield SessionViolation(SessionRule.ONE_HOLDER, entry.session, text)
            holders[entry.session] = entry.holder
        elif isinstance(entry, Ended) and holders.get(entry.session) == entry.holder:
            del holders[entry.session]


def _out_of_order(log: Sequence[SessionEntry]) -> Iterator[SessionViolation]:
    sessions = {entry.message: entry.key for entry in log if isinstance(entry, Sent)}
    # Of each session the numbers of all messages that were ever seen in it.
    known: dict[str, set[int]] = {}
    for entry in log:
        if isinstance(entry, Received | Left) and (session := sessions.get(entry.message)):
            known.setdefault(session, set()).add(entry.sequence)
    done: set[int] = set()
    given: dict[str, set[int]] = {}
    for entry in log:
        if isinstance(entry, CompletionAsked):
            done.add(entry.sequence)
        elif isinstance(entry, Received) and (session := sessions.get(entry.message)):
            own = given.setdefault(entry.receiver, set())
            older = {each for each in known[session] if each < entry.sequence}
            if overtaken := older - own - done:
                text = f"{entry.receiver} got {entry.sequence:#x} before {min(overtaken):#x}"
                yield SessionViolation(SessionRule.IN_ORDER, session, text)
            own.add(entry.sequence)


def _states_lost(log: Sequence[SessionEntry]) -> Iterator[SessionViolation]:
    possible: dict[str, set[bytes | None]] = {}
    for entry in log:
        if isinstance(entry, StateAsked):
            possible.setdefault(entry.session, {None}).add(entry.state)
        elif isinstance(entry, StateKept):
            possible[entry.session] = {entry.state}
        elif isinstance(entry, StateSeen):
            if entry.state not in possible.get(entry.session, {None}):
                text = f"{entry.state!r} was found"
                yield SessionViolation(SessionRule.THE_STATE_IS_KEPT, entry.session, text)
            # Whatever it was before, now it is known.
            possible[entry.session] = {entry.state}
