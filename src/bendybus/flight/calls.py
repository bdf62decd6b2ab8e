"""Which calls are under way, how many may be, who keeps us waiting, and what went through.

Calls come in threads of gRPC's own, so what they share is behind one lock, held for a moment.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID, uuid4

from pyarrow import flight

from bendybus.doors.figures import FlightFigures
from bendybus.flight.peers import Peer
from bendybus.flight.refusals import flight_error
from bendybus.model.errors import ArgumentInvalid, AuthenticationFailed, BusError, ServerBusy

STREAMS_MAX: Final = 64
"""Each has a thread, and a batch or two in memory."""
REQUESTS_MAX: Final = 256
HOST_HEADER: Final = "x-servicebus-host"
_STREAMS: Final = frozenset({flight.FlightMethod.DO_GET, flight.FlightMethod.DO_PUT})
_SERVED: Final = _STREAMS | {
    flight.FlightMethod.DO_ACTION,
    flight.FlightMethod.LIST_ACTIONS,
    flight.FlightMethod.GET_SCHEMA,
}


class Call(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """One call: what came with it, and whose turn it is.

    Flight asks the same object when the call is over, however it ended.
    """

    def __init__(self, calls: "Calls", method: object, headers: Mapping[str, list[str]]) -> None:
        self.tracking_id: UUID = uuid4()
        self.is_stream = method in _STREAMS
        self.token = _only(headers.get("authorization"))
        self.host = _only(headers.get(HOST_HEADER))
        # Where it comes from, known once it is being answered.
        self.peer: Peer | None = None
        # Since when it is the client's turn; None while it is ours.
        self.waits_since: float | None = calls.now() if self.is_stream else None
        self._calls = calls

    def await_client(self) -> None:
        """Note that it is the client's turn: to take what was sent, or to send more."""
        self.waits_since = self._calls.now()

    def go_on(self) -> None:
        """Note that it is our turn."""
        self.waits_since = None

    def note_known(self) -> None:
        """Note that who calls has shown a token that is good."""
        assert self.peer is not None
        self._calls.known_peers.add(self.peer)

    def sending_headers(self) -> dict[str, str]:
        """Let the client know by what the log knows the call."""
        return {"x-bendybus-tracking-id": str(self.tracking_id)}

    def call_completed(self, exception: Exception | None) -> None:
        """Give the place back."""
        self._calls.leave(self, is_good=exception is None)


class Calls(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Lets calls in, as many as there is room for."""

    def __init__(self, *, streams_max: int = STREAMS_MAX, requests_max: int = REQUESTS_MAX) -> None:
        self._lock = threading.Lock()
        self._under_way: set[Call] = set()
        self._streams = 0
        self._places = {True: streams_max, False: requests_max}
        self._rows_out = self._bytes_out = self._rows_in = self._bytes_in = 0
        self._answered = self._refused = 0
        self._is_closed = False
        # Who has shown a good token; whoever looks after connections forgets those that ended.
        self.known_peers: set[Peer] = set()

    @staticmethod
    def now() -> float:
        """Return the time that waits are measured by."""
        return time.monotonic()

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, list[str]]) -> Call:
        """Let a call in that has a token, if there is room; what it may do is asked later."""
        call = Call(self, info.method, headers)
        try:
            self._join(call, info.method)
        except BusError as error:
            raise flight_error(error, call.tracking_id) from None
        return call

    def _join(self, call: Call, method: object) -> None:
        if method not in _SERVED:
            raise ArgumentInvalid("The broker serves DoGet, DoPut, DoAction and GetSchema only.")
        if call.token is None:
            raise AuthenticationFailed(
                "MissingToken: The call has no authorization header. Sign it with a key of the"
                " namespace or the entity"
            )
        with self._lock:
            taken = self._streams if call.is_stream else len(self._under_way) - self._streams
            if self._is_closed:
                raise ServerBusy("The broker is stopping.")
            if taken >= self._places[call.is_stream]:
                raise ServerBusy(
                    f"So many {'streams' if call.is_stream else 'requests'} as may be are under"
                    f" way, {taken}; try again later."
                )
            self._under_way.add(call)
            self._streams += call.is_stream

    def leave(self, call: Call, *, is_good: bool) -> None:
        """Give the place of a call to others; once is enough."""
        with self._lock:
            if call not in self._under_way:
                return
            self._under_way.discard(call)
            self._streams -= call.is_stream
            if is_good:
                self._answered += 1
            else:
                self._refused += 1

    def note_out(self, rows: int, size: int) -> None:
        """Count what was read."""
        with self._lock:
            self._rows_out += rows
            self._bytes_out += size

    def note_in(self, rows: int, size: int) -> None:
        """Count what was written."""
        with self._lock:
            self._rows_in += rows
            self._bytes_in += size

    def close(self) -> None:
        """Let nobody else in."""
        with self._lock:
            self._is_closed = True

    @property
    def streams(self) -> int:
        """How many streams are under way."""
        return self._streams

    @property
    def is_closed(self) -> bool:
        """Whether streams should end."""
        return self._is_closed

    def under_way(self) -> Sequence[Call]:
        """Return the calls that are not over."""
        with self._lock:
            return list(self._under_way)

    def figures(self) -> FlightFigures:
        """Say what there is and was."""
        with self._lock:
            return FlightFigures(
                streams=self._streams,
                rows_out=self._rows_out,
                bytes_out=self._bytes_out,
                rows_in=self._rows_in,
                bytes_in=self._bytes_in,
                answered=self._answered,
                refused=self._refused,
            )


def _only(values: list[str] | None) -> str | None:
    """Return the value of a header that came once; twice would be read in two ways."""
    return values[0] if values is not None and len(values) == 1 and values[0] else None
