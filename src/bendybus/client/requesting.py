"""request: ask a node of the broker something and wait for its answer."""

from typing import Final

from bendybus.client.connection import Connection
from bendybus.client.errors import error_of_status
from bendybus.client.request_pair import RequestPair, Response
from bendybus.client.steps import Step, wait_for

_GOOD: Final = range(200, 300)


def request(
    connection: Connection,
    pair: RequestPair,
    properties: dict[object, object],
    body: object,
    deadline: float,
) -> Step[Response]:
    """Send a request and return its response. Raises what the broker answers instead."""

    def check() -> None:
        connection.check()
        pair.check()

    yield from wait_for(lambda: pair.is_ready, check, deadline, "Attaching to a node of the broker")
    response = pair.send(properties, body)
    yield from wait_for(lambda: response.is_here, check, deadline, "A response to a request")
    status, description, condition = response.status()
    if status not in _GOOD:
        raise error_of_status(status, description, condition)
    return response
