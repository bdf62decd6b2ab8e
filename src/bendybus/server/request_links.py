"""A client's requests to `$cbs` or `$management`, answered on its response link."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bendybus.amqp.events import TransferReceived
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.values import DecodeError
from bendybus.broker.clock import Clock
from bendybus.model.errors import ArgumentInvalid, ServerBusy
from bendybus.server.outlet import Outlet
from bendybus.server.requests import (
    Request,
    ResponseLink,
    choose_response_link,
    encode_response,
    read_request,
)
from bendybus.server.translate import ACCEPTED, rejected

REQUEST_CREDIT: Final = 100

Answer = Callable[[Request], Awaitable[tuple[dict[object, object], object]]]
Candidates = Callable[[], list[ResponseLink]]


class RequestLink:
    """One link of requests. They are answered one after the other, in order."""

    def __init__(
        self, outlet: Outlet, link: AmqpLink, answer: Answer, candidates: Candidates, clock: Clock
    ) -> None:
        self.link = link
        self._outlet = outlet
        self._answer = answer
        self._candidates = candidates
        self._clock = clock
        self._lane: list[TransferReceived] = []
        self._is_working = False

    def open(self) -> None:
        """Let the client begin."""
        self.link.grant(REQUEST_CREDIT)

    def take(self, event: TransferReceived) -> None:
        """Put a request into the lane."""
        self._lane.append(event)
        self._outlet.note_read(len(event.payload))

    def work(self) -> None:
        """Begin answering, unless that is under way."""
        if self._lane and not self._is_working:
            self._is_working = True
            self._outlet.spawn(self._answer_all())

    async def _answer_all(self) -> None:
        try:
            while self._lane:
                await self._outlet.writable()
                event = self._lane.pop(0)
                await self._answer_one(event)
                self._outlet.note_stored(len(event.payload))
                self._outlet.flush_soon()
                # Give a peer that floods us with requests no more than its turn.
                await asyncio.sleep(0)
        finally:
            self._is_working = False

    async def _answer_one(self, event: TransferReceived) -> None:
        now = self._clock.now()
        try:
            request = read_request(event.payload, event.state)
        except DecodeError as error:
            self._settle(event, rejected(ArgumentInvalid(f"The request: {error}."), now))
            return
        # First, whether it can be answered: otherwise it is not done.
        response_link = choose_response_link(self._candidates(), self.link, request.reply_to)
        if response_link is None:
            text = "There is no link to answer on; attach a receiver to the same node first."
            self._settle(event, rejected(ArgumentInvalid(text), now))
            return
        if not response_link.has_room:
            busy = ServerBusy("Too many responses wait for credit on their links.")
            self._settle(event, rejected(busy, now))
            return
        properties, body = await self._answer(request)
        response_link.send(encode_response(request, properties, body))
        self._settle(event, ACCEPTED)

    def _settle(self, event: TransferReceived, outcome: object) -> None:
        if not event.settled:
            self.link.settle(event.delivery_id, event.delivery_id, outcome)
        if self.link.credit <= REQUEST_CREDIT // 2:
            self.link.grant(REQUEST_CREDIT - len(self._lane))
