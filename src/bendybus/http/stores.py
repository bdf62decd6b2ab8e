"""Messaging stores over HTTP: list them, and take one away to see that the rest goes on."""

from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.http.authorization import Authorization
from bendybus.model.actions import Action
from bendybus.model.store_status import StoreStatus


class StoreDrills(Protocol):
    """What operators may do with stores. Unknown numbers raise `StoreNotFound`."""

    def stores(self) -> list[StoreStatus]:
        """Return every store, by number."""
        ...

    async def take_offline(self, number: int) -> None:
        """Take a store away; it refuses everything when this returns. Harmless if repeated."""
        ...

    async def bring_online(self, number: int) -> None:
        """Bring a store back; it serves when this returns. Harmless if repeated."""
        ...


def store_routes(drills: StoreDrills, authorization: Authorization) -> list[Route]:
    """Return the routes. All need the right to manage: a drill stops part of every entity."""

    async def list_stores(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        return JSONResponse([_json(store) for store in drills.stores()])

    async def take_offline(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        await drills.take_offline(request.path_params["number"])
        return Response(status_code=204)

    async def bring_online(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_STORES)
        await drills.bring_online(request.path_params["number"])
        return Response(status_code=204)

    return [
        Route("/$stores", list_stores, methods=["GET"]),
        Route("/$stores/{number:int}/offline", take_offline, methods=["POST"]),
        Route("/$stores/{number:int}/online", bring_online, methods=["POST"]),
    ]


def _json(store: StoreStatus) -> dict[str, object]:
    return {
        "number": store.number,
        "state": store.state.value,
        "reason": store.reason,
        "path": store.path,
        "bytes": store.size_bytes,
        "fragments": store.fragments,
    }
