"""One client's connection: requests in, one after the other, and their answers out.

    idle ──first byte──▶ head ──admitted──▶ body ──whole──▶ answering ──written──▶ idle
                           │                  │                                      │
                           └─────refused──────┴────▶ parting ◀──────not kept alive───┘

Everything but answering has a deadline, and answering is bounded by whoever answers. What comes
while an answer is under way waits in a buffer that is not read beyond a bound. A connection that
is refused is heard out for a moment: closing at once would reset it, and the answer with it.
"""

import asyncio
from typing import Final, cast

from bendybus.http.answers import encode_answer
from bendybus.http.chunks import ChunkedBody
from bendybus.http.exchange import Admission, Answer, Desk, Request
from bendybus.http.guard import Guard
from bendybus.http.request_head import HeadReader, RequestHead, RequestRefused

IDLE_SECONDS: Final = 60.0
HEAD_SECONDS: Final = 15.0
BODY_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 30.0
PART_SECONDS: Final = 2.0
# What may come of further requests while one is answered.
AHEAD_BYTES_MAX: Final = 64 * 1024

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(asyncio.Protocol):
    """Reads requests by a strict grammar, has each answered, and keeps to its bounds."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._reading: HeadReader | None = None
        self._head: RequestHead | None = None
        self._admission: Admission
        self._chunks: ChunkedBody | None = None
        self._reserved = 0
        self._answering: asyncio.Task[None] | None = None
        self._hang_up: asyncio.Future[None] | None = None
        self._is_parting = False
        self._is_blocked = False
        self._is_paused = False
        self._has_ended = False
        self._has_begun = False
        self.is_gone = False
        # When the client must have gone on, by the loop's time; None while it waits for us.
        self.deadline: float | None = None

    # --- what an answer may want to know of the client

    @property
    def address(self) -> str:
        """Where the client is."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""

    @property
    def port(self) -> int:
        """The port at the client's end, which tells its connections apart."""
        peer = self._transport.get_extra_info("peername")
        return int(peer[1]) if isinstance(peer, tuple) else 0

    @property
    def is_secure(self) -> bool:
        """Whether it came through TLS."""
        return self._transport.get_extra_info("sslcontext") is not None

    def hang_up(self) -> "asyncio.Future[None]":
        """Return a future that ends when the client has hung up."""
        if self._hang_up is None:
            self._hang_up = self._loop.create_future()
            if self.is_gone:
                self._hang_up.set_result(None)
        return self._hang_up

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many already."""
        # uvloop's are transports by what they can do, not by their class.
        self._transport = cast("asyncio.Transport", transport)
        if self._guard.join(self):
            self._wait_for_client(IDLE_SECONDS)
            return
        busy = RequestRefused(503, "There are too many connections; try again later.")
        self._is_parting = True
        self._write(self._desk.refuse(busy), is_last=True)

    def data_received(self, data: bytes) -> None:
        """Go on with what came, or keep it until the answer under way is out."""
        if self._is_parting:
            return
        self._buffer += data
        if self._answering is None and not self._is_blocked:
            self._read()
        else:
            self._pause_when_ahead()

    def eof_received(self) -> bool:
        """Note that nothing more comes. An answer under way is still written."""
        self._note_gone()
        self._has_ended = True
        return self._answering is not None and not self.is_secure

    def connection_lost(self, exc: Exception | None) -> None:
        """Let everything go."""
        del exc
        self._note_gone()
        self._release()
        self._guard.leave(self)

    def pause_writing(self) -> None:
        """Wait for the client to read; not for ever."""
        self._is_blocked = True
        self.deadline = self._loop.time() + WRITE_SECONDS

    def resume_writing(self) -> None:
        """Go on when it has."""
        self._is_blocked = False
        if self._answering is None and not self._is_parting:
            self._next()

    # --- the guard's calls

    def end_late(self) -> None:
        """End a connection whose client has not gone on in time."""
        if self._is_parting or self._is_blocked:
            self._transport.abort()
        elif self._head is None and not self._has_begun:
            self._transport.close()
        else:
            self._refuse(RequestRefused(408, "The request did not come in time."))

    def give_way(self) -> None:
        """End at once, for others have more use for the place."""
        if self._is_blocked:
            self._transport.abort()
        else:
            self._transport.close()

    def end(self) -> None:
        """End as soon as the answer under way is written."""
        self._has_ended = True
        if self._answering is None:
            self._transport.close()
        else:
            # Whoever waits for messages need not any more.
            self._note_gone()

    def abort(self) -> None:
        """End at once, whatever is under way."""
        self._transport.abort()

    # --- a request, step by step

    def _read(self) -> None:
        try:
            if self._head is None and not self._read_head():
                return
            body = self._read_body()
        except RequestRefused as refusal:
            self._refuse(refusal)
            return
        if body is not None:
            self._begin_answer(body)

    def _read_head(self) -> bool:
        """Take the head, once it is whole. False: nothing more is to be done now."""
        if self._reading is None:
            self._reading = HeadReader()
        head = self._reading.take(self._buffer)
        if head is None:
            if not self._has_begun and self._reading.has_begun:
                self._has_begun = True
                self._wait_for_client(HEAD_SECONDS)
            return False
        self._reading = None
        if "upgrade" in head.fields and self._upgrade(head):
            return False
        self._head = head
        self._admission = self._desk.admit(head)
        if head.is_chunked or head.body_length:
            self._expect_body(head)
        return True

    def _expect_body(self, head: RequestHead) -> None:
        bytes_max = self._admission.body_bytes_max
        if head.body_length > bytes_max:
            raise _too_large(bytes_max)
        if head.is_chunked:
            self._chunks = ChunkedBody(bytes_max)
        reserved = bytes_max if head.is_chunked else head.body_length
        if not self._guard.reserve(reserved):
            raise RequestRefused(503, "Too many large requests are under way; try again later.")
        self._reserved = reserved
        self._wait_for_client(BODY_SECONDS)
        if head.expects_continue and not self._buffer:
            self._transport.write(_CONTINUE)

    def _read_body(self) -> bytes | None:
        """Take the body, once it is whole."""
        head = self._head
        assert head is not None
        if self._chunks is not None:
            body = self._chunks.take(self._buffer)
            if body is None and self._chunks.is_too_large:
                raise _too_large(self._admission.body_bytes_max)
            return body
        length = head.body_length
        if length == 0:
            return b""
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _upgrade(self, head: RequestHead) -> bool:
        """Hand the connection over, if its client asks for a protocol that is spoken here."""
        protocol = self._desk.upgrade(head, self)
        if protocol is None:
            return False
        self._guard.leave(self)
        self.deadline = None
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(head.raw + bytes(self._buffer))
        self._buffer.clear()
        return True

    def _begin_answer(self, body: bytes) -> None:
        assert self._head is not None
        request = Request(self._head, body, self)
        self.deadline = None
        self._guard.note_busy(self)
        self._answering = self._loop.create_task(self._answer(request, self._admission))
        self._pause_when_ahead()

    async def _answer(self, request: Request, admission: Admission) -> None:
        try:
            answer = await admission.answer(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            answer = self._desk.fail(request.head, error)
        self._answering = None
        self._head = None
        self._chunks = None
        self._hang_up = None
        self._release()
        is_last = self._has_ended or not request.head.is_kept_alive
        self._guard.note_answer(request.head.method, answer.status)
        self._write(answer, is_last=is_last, has_body=request.head.method != "HEAD")
        if not is_last and not self._is_blocked:
            self._next()

    def _next(self) -> None:
        """Turn to the next request, which may be there already."""
        self._has_begun = False
        self._wait_for_client(IDLE_SECONDS)
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        if self._buffer:
            self._read()

    def _pause_when_ahead(self) -> None:
        if len(self._buffer) > AHEAD_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    # --- the ends

    def _refuse(self, refusal: RequestRefused) -> None:
        """Answer what cannot be served, and part: where the next request begins is not known."""
        answer = self._desk.refuse(refusal)
        self._guard.note_answer("" if self._head is None else self._head.method, answer.status)
        self._is_parting = True
        self._buffer.clear()
        self._release()
        is_heard_out = self._transport.can_write_eof() and not self._has_ended
        self._write(answer, is_last=not is_heard_out, says_last=True)
        if is_heard_out:
            self._transport.write_eof()
            self._wait_for_client(PART_SECONDS)

    def _write(
        self, answer: Answer, *, is_last: bool, has_body: bool = True, says_last: bool = False
    ) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(
            encode_answer(answer, is_last=is_last or says_last, has_body=has_body)
        )
        if is_last:
            self._transport.close()

    def _wait_for_client(self, seconds: float) -> None:
        self.deadline = self._loop.time() + seconds
        self._guard.note_waiting(self)

    def _note_gone(self) -> None:
        self.is_gone = True
        if self._hang_up is not None and not self._hang_up.done():
            self._hang_up.set_result(None)

    def _release(self) -> None:
        if self._reserved:
            self._guard.release(self._reserved)
            self._reserved = 0


def _too_large(bytes_max: int) -> RequestRefused:
    return RequestRefused(413, f"The body may have at most {bytes_max} bytes.")
