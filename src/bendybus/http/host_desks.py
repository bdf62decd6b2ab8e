"""Leads requests to the desk of the namespace that they are for, by their Host."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bendybus.http.exchange import Admission, Answer, Client, Desk, Request
from bendybus.http.request_head import RequestHead, RequestRefused
from bendybus.model.errors import AuthenticationFailed, EntityNotFound

# About the broker and not about a namespace: those who watch it, by whatever name they have for the
# machine, are no clients of any.
ABOUT_THE_BROKER: Final = frozenset({"/health", "/ready", "/metrics"})
# Of a request that leads nowhere.
BODY_BYTES_MAX: Final = 64 * 1024
# The status of an answer to who has no key.
_UNKNOWN: Final = 401


class HostDesks:
    """One desk for each namespace."""

    def __init__(
        self,
        default: Desk,
        find: Callable[[str | None], Desk],
        is_shared: Callable[[], bool] = lambda: False,
    ) -> None:
        self._default = default
        # Raises `EntityNotFound` for a host that is none of ours.
        self._find = find
        # Whether other front ends may have created what is not known here yet.
        self._is_shared = is_shared

    def admit(self, head: RequestHead) -> Admission:
        """Say who answers a request."""
        try:
            desk = self._desk(head)
        except EntityNotFound as error:
            return Admission(BODY_BYTES_MAX, _refusing(error))
        admission = desk.admit(head)
        if desk is self._default and self._is_shared():
            return admission._replace(answer=partial(self._answer_at_last, admission.answer))
        return admission

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

    async def _answer_at_last(
        self, answer: Callable[[Request], Awaitable[Answer]], request: Request
    ) -> Answer:
        """Answer, and if nobody knows the key here, at the desk where the host leads by then.

        Whoever finds no key has learnt what other front ends have created until now; and nothing
        was done for who had none.
        """
        refusal: AuthenticationFailed | None = None
        answered = Answer(_UNKNOWN)
        try:
            answered = await answer(request)
        except AuthenticationFailed as error:
            refusal = error
        if answered.status == _UNKNOWN:
            desk = self._desk(request.head)
            if desk is not self._default:
                return await desk.admit(request.head).answer(request)
        if refusal is not None:
            raise refusal
        return answered

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
