"""Leads requests to the desk of the namespace that they are for, by their Host."""

import asyncio
from collections.abc import Callable
from typing import Final

from bendybus.http.exchange import Admission, Answer, Client, Desk, Request
from bendybus.http.request_head import RequestHead, RequestRefused
from bendybus.model.errors import EntityNotFound

# About the broker and not about a namespace: those who watch it, by whatever name they have for the
# machine, are no clients of any.
ABOUT_THE_BROKER: Final = frozenset({"/health", "/ready", "/metrics"})
# Of a request that leads nowhere.
BODY_BYTES_MAX = 64 * 1024


class HostDesks:
    """One desk for each namespace."""

    def __init__(self, default: Desk, find: Callable[[str | None], Desk]) -> None:
        self._default = default
        # Raises `EntityNotFound` for a host that is none of ours.
        self._find = find

    def admit(self, head: RequestHead) -> Admission:
        """Say who answers a request."""
        try:
            return self._desk(head).admit(head)
        except EntityNotFound as error:
            return Admission(BODY_BYTES_MAX, _refusing(error))

    def refuse(self, refusal: RequestRefused) -> Answer:
        """Put into words what is no request; whom it was for is not known."""
        return self._default.refuse(refusal)

    def fail(self, head: RequestHead, error: BaseException) -> Answer:
        """Answer a refusal, or what nobody foresaw."""
        try:
            return self._desk(head).fail(head, error)
        except EntityNotFound:
            return self._default.fail(head, error)

    def upgrade(self, head: RequestHead, client: Client) -> asyncio.Protocol | None:
        """Hand over to AMQP, which finds the namespace by itself."""
        return self._default.upgrade(head, client)

    def _desk(self, head: RequestHead) -> Desk:
        try:
            return self._find(head.fields.get("host"))
        except EntityNotFound:
            if head.path in ABOUT_THE_BROKER:
                return self._default
            raise


def _refusing(error: EntityNotFound) -> Callable[[Request], "asyncio.Future[Answer]"]:
    def answer(request: Request) -> "asyncio.Future[Answer]":
        del request
        refused: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        return refused

    return answer
