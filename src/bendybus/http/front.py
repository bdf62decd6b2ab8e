"""The front: who answers a request, and how refusals are put."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from starlette.responses import Response

from bendybus.http.asgi import AsgiApp, AsgiBridge
from bendybus.http.exchange import Admission, Answer, Client
from bendybus.http.problems import Problem, error_response, problem_response
from bendybus.http.request_head import RequestHead, RequestRefused
from bendybus.http.rest import Rest
from bendybus.model.errors import BusError, MessagingInternal

logger: Final = logging.getLogger(__name__)

Upgrade = Callable[[RequestHead, Client], asyncio.Protocol | None]


class Front:
    """Leads to REST messaging, which is many small requests, past all that others need."""

    def __init__(
        self,
        namespace: str,
        rest: Rest,
        app: AsgiApp,
        now: Callable[[], datetime],
        upgrade: Upgrade | None = None,
    ) -> None:
        self._namespace = namespace
        self._rest = rest
        self._others = AsgiBridge(app)
        self._now = now
        self._upgrade = upgrade

    def admit(self, head: RequestHead) -> Admission:
        """Say who answers a request."""
        return self._rest.admit(head) or self._others.admission

    def refuse(self, refusal: RequestRefused) -> Answer:
        """Put into words what is no request, too much, or too slow."""
        problem = Problem(refusal.status, refusal.status * 100)
        headers = {"Retry-After": "4"} if refusal.status == 503 else None
        return _answer_of(
            error_response(
                problem, refusal.message, resource=self._namespace, now=self._now(), headers=headers
            )
        )

    def fail(self, head: RequestHead, error: BaseException) -> Answer:
        """Answer a refusal, or what nobody foresaw, which is logged."""
        if isinstance(error, BusError):
            return self._problem(head, error)
        # Its text may hold what callers should not see; the log has it.
        logger.error("request failed: %s %s", head.method, head.path, exc_info=error)
        return self._problem(head, MessagingInternal("The broker failed to answer; see its log."))

    def upgrade(self, head: RequestHead, client: Client) -> asyncio.Protocol | None:
        """Return what speaks another protocol on this connection from here on, if any does."""
        return None if self._upgrade is None else self._upgrade(head, client)

    def _problem(self, head: RequestHead, error: BusError) -> Answer:
        resource = f"{self._namespace}:{head.path}"
        return _answer_of(problem_response(error, resource=resource, now=self._now()))


def _answer_of(response: Response) -> Answer:
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in response.raw_headers
        if name != b"content-length"
    ]
    return Answer(response.status_code, headers, bytes(response.body))
