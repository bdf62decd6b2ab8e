"""How protocol logic is written once for a blocking and an asynchronous client.

What a client does is a *step*: a generator that never touches a socket or a clock. It yields an
instruction when it cannot go on, and is resumed with the present time. A shell (`blocking_io`,
`async_io`) owns the socket and carries instructions out:

    Wait(until)   send what is to be sent; resume when bytes came, or when it is `until`
    Flush()       send what is to be sent; resume when the way out has room
    Connect(...)  open a socket for a connection; a failure is thrown into the step as `OSError`

Rule 1: times are seconds of one clock that never jumps; a step compares them and nothing else.
Rule 2: a step may be resumed early and for no reason, so it looks at its condition, not at why.
Rule 3: a step that is closed half-way leaves nothing behind that the next would trip over.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from bendybus.client.connection import Connection
from bendybus.client.errors import TimedOut

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wait:
    """Resume when anything came, and at this time at the latest."""

    until: float


@dataclass(frozen=True, slots=True)
class Flush:
    """Resume when what is to be sent was handed on. The connection may have failed by then."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a socket to the endpoint of the connection, in place of the one there was."""

    connection: Connection
    until: float


Instruction: TypeAlias = Wait | Flush | Connect
Step: TypeAlias = Generator[Instruction, float, T]


def wait_for(
    is_met: Callable[[], bool], check: Callable[[], None], deadline: float, what: str
) -> Step[None]:
    """Wait until a condition is met. Raises what `check` raises, and `TimedOut` at the deadline."""
    while not is_met():
        check()
        now = yield Wait(deadline)
        if now >= deadline and not is_met():
            check()
            raise TimedOut(f"{what} did not happen within the time allowed")


def pause(until: float) -> Step[None]:
    """Let time pass, whatever comes meanwhile."""
    now = yield Flush()
    while now < until:
        now = yield Wait(until)
