"""Calling features.cpp: messages with marks, receivers of sessions, locks that are held."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.clients import finish, load_rate, number_before, wait_until_ready
from bench.scenarios import Turn


@dataclass(frozen=True, slots=True)
class Marks:
    """What messages carry besides their bodies. A number of 0 leaves the mark away."""

    # Ids are this and a number: unlike all others as long as this is.
    id_prefix: str
    sessions: int = 0
    subjects: int = 0
    due_ms: int = 0

    def arguments(self) -> tuple[str, ...]:
        """The words for the client."""
        numbers = {"sessions": self.sessions, "subjects": self.subjects, "due_ms": self.due_ms}
        return (self.id_prefix, *(f"{name}={value}" for name, value in numbers.items() if value))


def send_marked(turn: Turn, count: int, marks: Marks, *, body_bytes: int) -> float:
    """Send to the queue of the turn; accepted messages per second."""
    then = (str(count), str(body_bytes), str(turn.size.in_flight), *marks.arguments())
    return load_rate(_run(turn, "send", *then))


def receive_by_several(turn: Turn, count: int) -> float:
    """Several receivers on one connection; messages per second."""
    return load_rate(_run(turn, "receive", str(count), *_receivers(turn)))


def receive_in_sessions(turn: Turn, count: int) -> float:
    """As many receivers, each taking session after session; messages per second."""
    per_session = str(turn.size.features.messages_per_session)
    return load_rate(_run(turn, "sessions", str(count), *_receivers(turn), per_session))


def _receivers(turn: Turn) -> tuple[str, str]:
    """How many there are, and how many messages each may have at once: together as one has."""
    receivers = turn.size.features.session_receivers
    return str(receivers), str(turn.size.in_flight // receivers)


def accept_wait_ms(turn: Turn, count: int) -> float:
    """The median time that accepting the next session takes."""
    return number_before("us_p50", _run(turn, "accept", str(count))) / 1000


@contextmanager
def locks_held(turn: Turn, queue: str, count: int) -> Iterator[None]:
    """Receive that many messages of the queue and settle none while the body runs."""
    with turn.clients.running(
        turn.broker, "features", "hold", queue=queue, then=(str(count),)
    ) as process:
        wait_until_ready(process, f"{count} locks")
        yield
        finish(process)


def _run(turn: Turn, mode: str, *then: str) -> str:
    with turn.clients.running(
        turn.broker, "features", mode, queue=turn.queue, then=then
    ) as process:
        return finish(process)
