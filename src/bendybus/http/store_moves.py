"""Moves of stores over HTTP.

POST  /$stores/3/move  {"url": "postgresql://..."}  begin; the same again changes nothing
GET   /$stores/3/move                               how far it is
"""

from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.http.authorization import Authorization
from bendybus.http.json_body import read_object
from bendybus.model.actions import Action
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.store_move import StoreMoveProgress


class StoreMoves(Protocol):
    """Who moves stores. Unknown numbers raise `StoreNotFound`."""

    def begin(self, number: int, url: str) -> None:
        """Begin to move a store to a database, or do nothing if that is under way."""
        ...

    def progress(self, number: int) -> StoreMoveProgress:
        """Say how far the last move of a store is."""
        ...


def store_move_routes(moves: StoreMoves, authorization: Authorization) -> list[Route]:
    """Return the routes. Both need the right to manage."""

    async def begin(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        url = (await read_object(request)).get("url")
        if not isinstance(url, str):
            raise ArgumentInvalid('Say where to move the store: {"url": "postgresql://..."}.')
        number = request.path_params["number"]
        moves.begin(number, url)
        return JSONResponse(_json(moves.progress(number)), status_code=202)

    async def show(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        return JSONResponse(_json(moves.progress(request.path_params["number"])))

    return [
        Route("/$stores/{number:int}/move", begin, methods=["POST"]),
        Route("/$stores/{number:int}/move", show, methods=["GET"]),
    ]


def _json(progress: StoreMoveProgress) -> dict[str, Any]:
    return {
        "store": progress.number,
        "to": progress.to,
        "stage": progress.stage,
        "rows": progress.rows,
        "rowsTotal": progress.rows_total,
        "kept": progress.kept,
        "caughtUp": progress.caught_up,
        "pauseMs": round(progress.pause_seconds * 1000, 1),
        "reason": progress.reason,
    }
