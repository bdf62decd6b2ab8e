"""Whether the broker is up (`/health`, as the emulator answers) and can do its work (`/ready`)."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.http.stores import StoreDrills
from bendybus.model.store_status import StoreState


def health_routes(is_started: Callable[[], bool], drills: StoreDrills) -> list[Route]:
    """Return the routes. They need no token: they tell nothing but the state."""

    async def health(_: Request) -> Response:
        if is_started():
            return _answer(200, "healthy", "Service is healthy.")
        return _answer(503, "unhealthy", "Service is starting.")

    async def ready(_: Request) -> Response:
        if not is_started():
            return _answer(503, "unhealthy", "Service is starting.")
        # One store is enough to accept messages, so a drill must not take the broker out of a
        # load balancer.
        if not any(store.state is StoreState.ONLINE for store in drills.stores()):
            return _answer(503, "unhealthy", "No messaging store is online.")
        return _answer(200, "healthy", "Service is ready.")

    return [Route("/health", health), Route("/ready", ready)]


def _answer(status: int, state: str, message: str) -> JSONResponse:
    return JSONResponse({"status": state, "message": message}, status)
