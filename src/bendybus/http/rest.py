"""REST messaging: which entity a request is about, whether its sender may, and what it does."""

import re
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.following import found
from bendybus.broker.receive import ReceiveMode, check_has_messages
from bendybus.broker.send import check_takes_messages
from bendybus.broker.served_queue import ServedQueue
from bendybus.http.authorization import Authorization
from bendybus.http.exchange import Admission, Answer, Request
from bendybus.http.request_head import RequestHead
from bendybus.http.rest_path import RestPath, Subject, parse_rest_path
from bendybus.http.rest_receive import RestReceive
from bendybus.http.rest_send import BATCH_BODY_FACTOR, MESSAGE_BYTES_MAX, RestSend, is_batch
from bendybus.http.rest_settle import settle_locked
from bendybus.model.actions import Action
from bendybus.model.errors import (
    ArgumentInvalid,
    EntityNotFound,
    InvalidOperation,
)

# For requests that have no use for a body.
IDLE_BODY_BYTES_MAX: Final = 4 * 1024
# The first version of the service that knew of partitions (R7.3).
PARTITIONED_SINCE: Final = "2013-10"
_API_VERSION: Final = "api-version"
_VERSION: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])(?:-\d{2})?(?:-preview)?", re.ASCII)


class Rest:
    """Answers what is about messages."""

    def __init__(self, catalog: Catalog, authentication: Authentication, clock: Clock) -> None:
        self._catalog = catalog
        self._authorization = Authorization(authentication)
        self._clock = clock
        self._send = RestSend(clock)
        self._receive = RestReceive(clock)

    def admit(self, head: RequestHead) -> Admission | None:
        """Take a request that is about messages; None if it is not."""
        path = parse_rest_path(head.method, head.path)
        if path is None:
            return None
        bytes_max = IDLE_BODY_BYTES_MAX
        if path.subject is Subject.MESSAGES:
            bytes_max = self._message_bytes_max(path)
            if is_batch(head.fields.get("content-type", "")):
                bytes_max *= BATCH_BODY_FACTOR
        return Admission(bytes_max, partial(self._answer, path))

    def _message_bytes_max(self, path: RestPath) -> int:
        try:
            return min(self._queue(path).message_bytes_max, MESSAGE_BYTES_MAX)
        except EntityNotFound:
            # Whether there is one is not told before it is known who asks.
            return MESSAGE_BYTES_MAX

    async def _answer(self, path: RestPath, request: Request) -> Answer:
        await self._authorize(path, request)
        queue = await found(self._catalog.records.following, lambda: self._queue(path))
        if request.head.query:
            _check_version(queue, request.head.query)
        method = request.head.method
        match path.subject:
            case Subject.MESSAGES:
                check_takes_messages(queue, path.address.sub_queue)
                return await self._send.send(queue, request)
            case Subject.HEAD:
                check_has_messages(queue)
                mode = ReceiveMode.PEEK_LOCK if method == "POST" else ReceiveMode.RECEIVE_AND_DELETE
                sub_queue = queue.sub_queues[path.address.sub_queue]
                return await self._receive.receive(sub_queue, request, mode, _url(request))
            case Subject.LOCKED:
                assert path.lock_token is not None
                sub_queue = queue.sub_queues[path.address.sub_queue]
                return await settle_locked(sub_queue, method, path.lock_token, self._clock)

    async def _authorize(self, path: RestPath, request: Request) -> None:
        await self._authorization.require_token(
            request.head.fields.get("authorization"),
            _action(path.subject, request.head.method),
            path=path.resource,
            entity=path.address.path,
            client=(request.client.address, request.client.port),
        )

    def _queue(self, path: RestPath) -> ServedQueue:
        address = path.address
        if address.subscription is None:
            return self._catalog.queue(address.path)
        return self._catalog.subscription(address.path, address.subscription)


def _action(subject: Subject, method: str) -> Action:
    match subject:
        case Subject.MESSAGES:
            return Action.SEND
        case Subject.HEAD:
            return Action.RECEIVE
        case Subject.LOCKED:
            return Action.RENEW if method == "POST" else Action.SETTLE


def _check_version(queue: ServedQueue, query: str) -> None:
    """Hold a request to the version it names, if it names one."""
    given = parse_qs(query, keep_blank_values=True).items()
    for version in (
        each for name, values in given if name.lower() == _API_VERSION for each in values
    ):
        if not _VERSION.fullmatch(version):
            raise ArgumentInvalid(
                "api-version must be a year and a month, such as 2021-05.", argument="api-version"
            )
        if queue.is_partitioned and version < PARTITIONED_SINCE:
            raise InvalidOperation(
                f"api-version {version} does not know partitioned entities; use"
                f" {PARTITIONED_SINCE} or a later one."
            )


def _url(request: Request) -> str:
    """Return where the messages of the entity are, as the client called it."""
    messages = request.head.path.rstrip("/").rpartition("/")[0]
    if not request.head.host:
        return messages
    scheme = "https" if request.client.is_secure else "http"
    return f"{scheme}://{request.head.host}{messages}"
