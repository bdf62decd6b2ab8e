"""The HTTP side of the broker as one ASGI application."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bendybus.broker.authenticate import Authentication
from bendybus.http.authorization import Authorization
from bendybus.http.health import health_routes
from bendybus.http.openapi import openapi_routes
from bendybus.http.problems import Problem, error_response, problem_response
from bendybus.http.stores import StoreDrills, store_routes
from bendybus.model.errors import BusError, MessagingInternal

logger = logging.getLogger(__name__)


def create_app(
    *,
    namespace: str,
    authentication: Authentication,
    drills: StoreDrills,
    is_started: Callable[[], bool],
    now: Callable[[], datetime],
    routes: Sequence[Route] = (),
    has_stores: bool = True,
) -> Starlette:
    """Build the application. `is_started` is asked at each `/health`.

    The stores are all namespaces' together, so only one of them has those who may take one away.
    `routes` are asked after all others.
    """

    # Handlers are async because Starlette would run plain functions in threads.
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, BusError)
        return problem_response(error, resource=f"{namespace}:{request.url.path}", now=now())

    async def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        texts = {404: "No service is hosted at the specified address.", 405: "Method not allowed."}
        return error_response(
            Problem(error.status_code, error.status_code * 100),
            texts.get(error.status_code, error.detail),
            resource=f"{namespace}:{request.url.path}",
            now=now(),
            headers=error.headers,
        )

    async def failed(request: Request, error: Exception) -> Response:
        # The text of an unforeseen error may hold what callers should not see; the log has it.
        logger.error("request failed: %s %s", request.method, request.url.path, exc_info=error)
        return await refused(
            request, MessagingInternal("The broker failed to answer; see its log.")
        )

    app = Starlette(
        routes=[
            *health_routes(is_started, drills),
            *openapi_routes(),
            *(store_routes(drills, Authorization(authentication)) if has_stores else ()),
            *routes,
        ],
        exception_handlers={BusError: refused, HTTPException: not_routed, Exception: failed},
    )
    # A path is what it says: nobody is sent elsewhere with what was meant for here.
    app.router.redirect_slashes = False
    return app
