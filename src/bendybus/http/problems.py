"""What a refusal looks like over HTTP: one table, one form of body.

The body is the service's own, which its clients parse:

    <Error><Code>404</Code><Detail>SubCode=40400. text TrackingId:…, SystemTracker:…,
    Timestamp:…</Detail></Error>
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from bendybus.atom.xml_writing import escape
from bendybus.model.errors import BusError, Throttled

CONTENT_TYPE: Final = "application/xml; charset=utf-8"
RETRY_AFTER_SECONDS: Final = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """The status of an answer, and the finer number that the service puts in its body."""

    status: int
    subcode: int


PROBLEMS: Final[Mapping[str, Problem]] = {
    "entity-not-found": Problem(404, 40400),
    "entity-exists": Problem(409, 40900),
    "entity-disabled": Problem(403, 40301),
    "message-lock-lost": Problem(410, 41000),
    "session-lock-lost": Problem(410, 41000),
    "session-cannot-be-locked": Problem(410, 41000),
    "reader-in-use": Problem(409, 40900),
    "reader-lost": Problem(410, 41000),
    "message-not-found": Problem(404, 40400),
    "message-too-large": Problem(413, 41300),
    "message-damaged": Problem(500, 50000),
    "quota-exceeded": Problem(403, 40310),
    "invalid-operation": Problem(400, 40000),
    "argument-invalid": Problem(400, 40000),
    "argument-out-of-range": Problem(400, 40000),
    "not-implemented": Problem(501, 50100),
    "authentication-failed": Problem(401, 40103),
    # $cbs answers 400 here; over HTTP, a header that is no token is simply no credential.
    "token-malformed": Problem(401, 40103),
    "unauthorized": Problem(401, 40100),
    "transaction-unknown": Problem(404, 40400),
    "transaction-timed-out": Problem(408, 40800),
    "transaction-rolled-back": Problem(409, 40900),
    "server-busy": Problem(503, 50004),
    "throttled": Problem(429, 50004),
    "operation-timeout": Problem(408, 40800),
    "store-unavailable": Problem(503, 50004),
    "store-failed": Problem(503, 50004),
    "store-not-found": Problem(404, 40400),
    "internal-error": Problem(500, 50000),
}


def problem_response(error: BusError, *, resource: str, now: datetime) -> Response:
    """Answer a refusal."""
    problem = PROBLEMS[error.code]
    headers = {"x-bendybus-error": error.code}
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "SharedAccessSignature"
    if isinstance(error, Throttled):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return error_response(problem, error.message, resource=resource, now=now, headers=headers)


def error_response(
    problem: Problem,
    message: str,
    *,
    resource: str,
    now: datetime,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Write the body that the official clients understand."""
    sentence = message if message.endswith((".", "?", "!")) else f"{message}."
    tracking_id = uuid.uuid4()
    about = {"status": problem.status, "resource": resource, "tracking_id": tracking_id}
    _log.info("refused: %s", message, extra=about)
    detail = (
        f"SubCode={problem.subcode}. {sentence} TrackingId:{tracking_id},"
        f" SystemTracker:{resource}, Timestamp:{now:%Y-%m-%dT%H:%M:%S}"
    )
    body = f"<Error><Code>{problem.status}</Code><Detail>{escape(detail)}</Detail></Error>"
    return Response(body, problem.status, headers, media_type=CONTENT_TYPE)
