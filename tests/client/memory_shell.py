"""A shell without sockets and without time: steps talk with scripted brokers, call by call."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.endpoint import Credential, Endpoint
from bendybus.client.steps import Connect, Instruction, Step, Wait
from tests.client.scripted_broker import ScriptedBroker

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = Endpoint("broker.example", 5672, None)
CREDENTIAL = Credential("broker.example", "rule", "key")


class MemoryShell:
    """Carries out instructions. Time passes only when a step waits and nothing more can come.

    Each connection gets the next of `brokers`; a missing one is a host that refuses.
    """

    def __init__(self, *brokers: ScriptedBroker, credential: Credential = CREDENTIAL) -> None:
        self.time = 0.0
        self.connector = Connector(ENDPOINT, credential, "test", self.clock)
        self.attempts: list[float] = []
        self.cut_when: Callable[[], bool] = lambda: False
        """Loses the connection once this is so; what is under way to the client is lost, too."""
        self._brokers = list(brokers)
        self._broker: ScriptedBroker | None = None
        self._connection: Connection | None = None

    def clock(self) -> datetime:
        """Return the time by the clock on the wall."""
        return START + timedelta(seconds=self.time)

    def run(self, step: Step[T]) -> T:
        """Drive a step to its end."""
        try:
            instruction = next(step)
            while True:
                error = self._perform(instruction)
                instruction = step.send(self.time) if error is None else step.throw(error)
        except StopIteration as stop:
            self.exchange()
            result: T = stop.value
            return result

    def cut(self) -> None:
        """Lose the connection."""
        assert self._connection is not None
        self._connection.lose("the test cut it")
        self._broker = None

    def exchange(self) -> bool:
        """Carry bytes to and fro until there are none; tell whether there were any."""
        any_moved = False
        while self._broker is not None and self._connection is not None:
            data = self._connection.data_to_send()
            answer = self._broker.receive(data)
            if self.cut_when():
                self.cut_when = lambda: False
                self.cut()
                return True
            if not data and not answer:
                break
            any_moved = True
            self._connection.receive_data(answer)
        return any_moved

    def _perform(self, instruction: Instruction) -> OSError | None:
        match instruction:
            case Wait():
                if not self.exchange():
                    assert instruction.until < math.inf, "a step waits for ever"
                    self.time = max(self.time, instruction.until)
            case Connect():
                self.attempts.append(self.time)
                if not self._brokers:
                    return ConnectionRefusedError("nobody listens")
                self._broker = self._brokers.pop(0)
                self._connection = instruction.connection
            case _:
                self.exchange()
        return None
