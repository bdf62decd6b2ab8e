"""The Flight service itself: each call is read, done by the broker, and answered or refused.

Handlers run in threads of gRPC's. What they ask of the broker is done in its loop (`Hop`); turning
messages into columns and back is done here, where numpy and Arrow let go of the interpreter.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyarrow import flight

from bendybus.columns.arrow_types import arrow_schema
from bendybus.flight.actions import ACTIONS
from bendybus.flight.asked import Asked
from bendybus.flight.body import read_body
from bendybus.flight.calls import Call
from bendybus.flight.hop import LONG_SECONDS_MAX, STEP_SECONDS_MAX
from bendybus.flight.peers import parse_peer
from bendybus.flight.reading import open_reading, stream
from bendybus.flight.refusals import flight_error, unforeseen
from bendybus.flight.service import Service
from bendybus.flight.ticket import read_ticket
from bendybus.flight.writing import Bringing, open_writing, read_command, write
from bendybus.model.errors import ArgumentInvalid, BusError
from bendybus.model.suggestion import suggest

_CALL: Final = "call"


class BulkServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Serves at one address, from the moment it is made."""

    def __init__(
        self,
        location: str,
        service: Service,
        certificates: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self._service = service
        self._desk, self._calls, self._hop, self._clock = service
        middleware = {_CALL: service.calls}
        super().__init__(location, tls_certificates=certificates, middleware=middleware)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        """Do what an action asks for; the answer is one JSON object."""
        with self._answering(context) as call:
            known = ACTIONS.get(action.type)
            if known is None:
                raise ArgumentInvalid(
                    f"There is no action '{action.type[:100]}'; {suggest(action.type, ACTIONS)}"
                )
            content = b"" if action.body is None else action.body.to_pybytes()
            body = read_body(content, known.fields, f"body of '{action.type}'")
            asked = Asked(self._desk, call, body, self._clock)
            seconds = LONG_SECONDS_MAX if known.is_long else STEP_SECONDS_MAX
            answer = self._hop.run(known.do(asked), seconds)
            return [json.dumps(answer).encode()]

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Say what can be asked for."""
        with self._answering(context):
            return [(name, action.told) for name, action in ACTIONS.items()]

    def get_schema(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.SchemaResult:
        """Return the columns that a ticket would give, which here is the command."""
        with self._answering(context):
            ticket = read_ticket(descriptor.command or b"")
            return flight.SchemaResult(arrow_schema(ticket.columns))

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.GeneratorStream:
        """Read messages."""
        with self._answering(context) as call:
            wish = read_ticket(ticket.ticket)
            call.go_on()
            reading, pieces = self._hop.run(open_reading(self._service, call, wish))
            batches = stream(reading, pieces, call, self._service)
            return flight.GeneratorStream(arrow_schema(wish.columns), self._refusing(call, batches))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Keep rows as a stage; the answer is the last metadata."""
        with self._answering(context) as call:
            command = read_command(descriptor.command or b"")
            call.go_on()
            opening = open_writing(self._service, call, command, reader.schema)
            writing = self._hop.run(opening)
            bringing = Bringing(reader, context.is_cancelled, call)
            answer = write(writing, bringing, self._service, rejects=command.rejects)
            writer.write(json.dumps(answer).encode())

    @contextmanager
    def _answering(self, context: flight.ServerCallContext) -> Iterator[Call]:
        """Give the call, and put into Flight's words what goes wrong with it."""
        call: Call = context.get_middleware(_CALL)
        call.peer = parse_peer(context.peer())
        try:
            yield call
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            raise _refusal(error, call) from None

    def _refusing(self, call: Call, batches: Iterator[Any]) -> Iterator[Any]:
        """Do the same for a stream, whose mistakes show when it is under way."""
        try:
            yield from batches
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            raise _refusal(error, call) from None


def _refusal(error: Exception, call: Call) -> Exception:
    if isinstance(error, BusError):
        return flight_error(error, call.tracking_id)
    return unforeseen(error, call.tracking_id)
