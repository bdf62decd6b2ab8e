"""The body of a request that is a JSON object."""

import json
from typing import Any

from starlette.requests import Request

from bendybus.model.errors import ArgumentInvalid


async def read_object(request: Request) -> dict[str, Any]:
    """Read it. Raises `ArgumentInvalid`."""
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ArgumentInvalid("The body of the request is not JSON.") from None
    if not isinstance(fields, dict):
        raise ArgumentInvalid("The body of the request is not a JSON object.")
    return fields
