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

    async def begin(self, number: int, url: str) -> None:
        """Begin to move a store to a database, or do nothing if that is under way."""
        ...

    async def progress(self, number: int) -> StoreMoveProgress:
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
        await moves.begin(number, url)
        return JSONResponse(_json(await moves.progress(number)), status_code=202)

    async def show(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        return JSONResponse(_json(await moves.progress(request.path_params["number"])))

    return [
        Route("/$stores/{number:int}/move", begin, methods=["POST"]),
        Route("/$stores/{number:int}/move", show, methods=["GET"]),
    ]


def store_move_paths() -> dict[str, Any]:
    """Describe the routes for `/openapi.json`."""
    text, number = {"type": "string"}, {"type": "integer"}
    stages = ["copying", "catching up", "switching", "done", "failed"]
    move = {
        "store": number,
        "to": {**text, "description": "without its password"},
        "stage": {**text, "enum": stages},
        "rows": number,
        "rowsTotal": {**number, "description": "about"},
        "kept": {**number, "description": "contents that an earlier try had copied"},
        "caughtUp": {**number, "description": "rows that changed meanwhile"},
        "pauseMs": {"type": "number", "description": "how long calls waited"},
        "reason": {"type": ["string", "null"], "description": "why it failed"},
    }
    schema = {"type": "object", "properties": move, "required": list(move)}
    answer = {"description": "How far it is", "content": {"application/json": {"schema": schema}}}
    parameters = [{"name": "number", "in": "path", "required": True, "schema": number}]
    wish = {"type": "object", "required": ["url"], "properties": {"url": text}}

    def responses(status: str, *refusals: int) -> dict[str, Any]:
        known = {str(each): {"$ref": f"#/components/responses/{each}"} for each in refusals}
        return {status: answer, **known}

    return {
        "/$stores/{number}/move": {
            "post": {
                "summary": "Begin to move a store to a database; the same again changes nothing",
                "parameters": parameters,
                "requestBody": {"content": {"application/json": {"schema": wish}}},
                "responses": responses("202", 400, 401, 404, 429, 503),
            },
            "get": {
                "summary": "How far the last move of a store is",
                "parameters": parameters,
                "responses": responses("200", 401, 404, 429),
            },
        }
    }


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
