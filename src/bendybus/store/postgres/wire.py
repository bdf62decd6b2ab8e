"""One session with a server: statements prepared, several in one flight, each answer in time.

psycopg's cursors wait as long as it takes, and one answer after the other. A lane must not: a
server that is paused, or behind a network that drops what is sent, must be found out in seconds,
and every round trip is a part of everybody's commit. So this speaks to libpq in pipeline mode:
what is sent is not waited for until somebody asks for an answer, and then all answers come
together, or the time for them is over and the session with it.
"""

import re
import select
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult

from bendybus.store.postgres.bounded import Unanswered
from bendybus.store.postgres.values import BINARY, DECODERS, Decode, bound

_JSON_PARAMETER: Final = re.compile(r"\$(\d+)::jsonb?\b(?!\[)")
_GOOD: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class _Statement:
    """A statement, and whether the server knows it by its name."""

    __slots__ = ("decoders", "is_prepared", "json_places", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name.encode()
        self.text = text.encode()
        self.is_prepared = False
        self.json_places = frozenset(int(number) - 1 for number in _JSON_PARAMETER.findall(text))
        self.decoders: list[Decode] | None = None


class Answer:
    """What a statement returned."""

    __slots__ = ("_result", "_statement")

    def __init__(self, result: PGresult, statement: _Statement) -> None:
        self._result = result
        self._statement = statement

    @property
    def changed(self) -> int:
        """How many rows it changed."""
        return self._result.command_tuples or 0

    @property
    def status(self) -> bytes:
        """What the server calls that which it did."""
        return self._result.command_status or b""

    def rows(self) -> list[tuple[Any, ...]]:
        """Return its rows."""
        result, statement = self._result, self._statement
        decoders = statement.decoders
        if decoders is None:
            columns = range(result.nfields)
            decoders = statement.decoders = [DECODERS[result.ftype(each)] for each in columns]
        get = result.get_value
        found: list[tuple[Any, ...]] = []
        for row in range(result.ntuples):
            values = [get(row, column) for column in range(len(decoders))]
            found.append(
                tuple(
                    [
                        None if value is None else decode(value)
                        for value, decode in zip(values, decoders, strict=True)
                    ]
                )
            )
        return found


class Wire:
    """A session. Used by one thread at a time."""

    def __init__(self, connection: psycopg.Connection[Any], *, patience: float) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._patience = patience
        self._statements: dict[str, _Statement] = {}
        # What was sent and not answered: statements to be made known, and ones to be executed.
        self._under_way: list[tuple[_Statement, bool]] = []
        # Warnings since they were last asked for.
        self.warnings: list[str] = []
        # Why the server ended the session while we asked for nothing.
        self._last_words = ""
        connection.add_notice_handler(self._note_warning)
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._poll = select.poll()
        self.socket: Final[int] = self._libpq.socket
        self._poll.register(self.socket, select.POLLIN)

    @property
    def has_unanswered(self) -> bool:
        """Whether anything was sent that is not answered."""
        return bool(self._under_way)

    def send(self, name: str, text: str, bindings: Sequence[Any] = ()) -> None:
        """Send a statement; `answers` waits for it."""
        if not self._under_way:
            self._make_sure_of_server()
        statement = self._statements.get(name)
        if statement is None:
            statement = self._statements[name] = _Statement(name, text)
        if not statement.is_prepared:
            self._libpq.send_prepare(statement.name, statement.text)
            self._under_way.append((statement, False))
            # Unless the answer says otherwise: the next one of the same flight need not send it.
            statement.is_prepared = True
        values, formats = bound(bindings, statement.json_places)
        self._libpq.send_query_prepared(statement.name, values, formats, BINARY)
        self._under_way.append((statement, True))

    def answers(self) -> list[Answer]:
        """Wait for all that was sent; raise what the first that failed says.

        Those behind one that failed were not executed.
        """
        under_way, self._under_way = self._under_way, []
        self._libpq.pipeline_sync()
        deadline = monotonic() + self._patience
        self._flush(deadline)
        found: list[Answer] = []
        error: psycopg.Error | None = None
        for statement, is_executed in under_way:
            result = self._next_result(deadline)
            if result.status not in _GOOD:
                if error is None:
                    error = error_from_result(result)
                if not is_executed:
                    statement.is_prepared = False
            elif is_executed:
                found.append(Answer(result, statement))
        self._end_flight(deadline)
        if error is not None:
            raise error
        return found

    def notifications(self) -> list[str]:
        """Return what was told to those who listen, as far as it has come."""
        self._libpq.consume_input()
        found: list[str] = []
        while (told := self._libpq.notifies()) is not None:
            found.append(told.extra.decode())
        return found

    def close(self) -> None:
        """End the session at once, whatever it is doing."""
        self._connection.close()

    def _make_sure_of_server(self) -> None:
        """Find out before we speak whether the server has ended the session, and why."""
        try:
            self._libpq.consume_input()
            self._libpq.is_busy()
        except psycopg.Error:
            raise self._lost(None) from None
        if self._last_words:
            raise self._lost(None)

    def _flush(self, deadline: float) -> None:
        """Send all of it, reading meanwhile: a server that cannot be rid of answers reads none."""
        while self._libpq.flush():
            self._poll.modify(self.socket, select.POLLIN | select.POLLOUT)
            try:
                self._wait(deadline)
            finally:
                self._poll.modify(self.socket, select.POLLIN)

    def _next_result(self, deadline: float) -> PGresult:
        """Return the result of the next statement."""
        libpq = self._libpq
        while True:
            while libpq.is_busy():
                self._wait(deadline)
            result = libpq.get_result()
            if result is not None:
                if libpq.status == pq.ConnStatus.BAD:
                    raise self._lost(result)
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    raise self._lost(None)
                # Behind each comes a nothing.
                while libpq.is_busy():
                    self._wait(deadline)
                libpq.get_result()
                return result
            if libpq.status == pq.ConnStatus.BAD:
                raise self._lost(None)

    def _end_flight(self, deadline: float) -> None:
        libpq = self._libpq
        while True:
            while libpq.is_busy():
                self._wait(deadline)
            result = libpq.get_result()
            if result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC:
                return
            if libpq.status == pq.ConnStatus.BAD:
                raise self._lost(result)

    def _wait(self, deadline: float) -> None:
        left = deadline - monotonic()
        if left <= 0 or not self._poll.poll(left * 1000):
            self.close()
            raise Unanswered(self._patience)
        try:
            self._libpq.consume_input()
        except psycopg.Error:
            raise self._lost(None) from None

    def _lost(self, result: PGresult | None) -> psycopg.Error:
        """Return what says that the session is over."""
        said = self._last_words or self._libpq.get_error_message()
        error: psycopg.Error = psycopg.OperationalError(said or "the connection was lost")
        if result is not None and result.error_field(pq.DiagnosticField.SQLSTATE):
            error = error_from_result(result)
        self.close()
        return error

    def _note_warning(self, said: psycopg.errors.Diagnostic) -> None:
        if said.severity_nonlocalized == "WARNING":
            self.warnings.append(said.message_primary or "")
        else:
            self._last_words = f"{said.message_primary} ({said.sqlstate})"
