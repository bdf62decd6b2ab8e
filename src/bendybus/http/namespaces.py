"""Namespaces over HTTP, for who may manage the default one.

    GET     /$namespaces               every namespace, the configured ones first
    GET     /$namespaces/<name>
    PUT     /$namespaces/<name>        {"sku": "Premium"}: creates; answered with its keys
    PATCH   /$namespaces/<name>        {"sku": "Basic"}: changes what is named
    DELETE  /$namespaces/<name>        with ?withEntities=true if it has any
    …       /$namespaces/<name>/$authorizationRules…   its keys, as `access_rules` has it

The words are those of the service's own management of them (Azure Resource Manager).
"""

from enum import Enum
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.create_namespace import create_namespace
from bendybus.broker.delete_namespace import delete_namespace
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.update_namespace import made_in_use, update_namespace
from bendybus.http.access_rules import (
    NOT_KEPT,
    Level,
    described,
    json_of_keys,
    routes_of_levels,
    shown_time,
)
from bendybus.http.authorization import Authorization
from bendybus.http.json_body import read_object
from bendybus.model.actions import Action
from bendybus.model.entity import Queue, Topic
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.tier import NAMESPACE_FRAGMENTS, PremiumPartitioning, Tier, TierName

_PATH: Final = "/$namespaces/{namespace}"
_KNOWN: Final = ("sku", "premiumPartitioning", "premiumMessagingPartitions")

Json = dict[str, Any]
Choice = TypeVar("Choice", bound=Enum)


def namespace_routes(
    namespaces: Namespaces, authorization: Authorization, clock: Clock
) -> list[Route]:
    """Return the routes. All need the right to manage, of the default namespace."""

    async def name_in(request: Request) -> str:
        await authorization.require(request, Action.MANAGE_NAMESPACES)
        # Whoever manages sees what was changed through another front end until now.
        await namespaces.records.following.look()
        name: str = request.path_params.get("namespace", "")
        return name

    async def list_all(request: Request) -> Response:
        await name_in(request)
        return JSONResponse([_json(namespaces, each) for each in namespaces.catalogs])

    async def show(request: Request) -> Response:
        catalog = namespaces.named(await name_in(request))
        return JSONResponse(_json(namespaces, catalog))

    async def create(request: Request) -> Response:
        name = await name_in(request)
        tier = _tier(await _read_wish(request), None)
        catalog = await create_namespace(namespaces, name, tier, now=clock.now())
        [root] = catalog.access.rules
        body = {**_json(namespaces, catalog), **json_of_keys(root)}
        return JSONResponse(body, status_code=201, headers=NOT_KEPT)

    async def update(request: Request) -> Response:
        name = await name_in(request)
        wish = await _read_wish(request)
        catalog = await update_namespace(
            namespaces, name, lambda before: _tier(wish, before), now=clock.now()
        )
        return JSONResponse(_json(namespaces, catalog))

    async def delete(request: Request) -> Response:
        name = await name_in(request)
        with_entities = request.query_params.get("withEntities") == "true"
        await delete_namespace(namespaces, name, with_entities=with_entities)
        return Response(status_code=204)

    async def level_of(request: Request) -> Level:
        catalog = namespaces.named(await name_in(request))
        # The configured ones are opened by what their own managers know alone.
        made_in_use(namespaces, catalog, "say what opens it")
        return catalog, None

    return [
        Route("/$namespaces", list_all, methods=["GET"]),
        Route(_PATH, show, methods=["GET"]),
        Route(_PATH, create, methods=["PUT"]),
        Route(_PATH, update, methods=["PATCH"]),
        Route(_PATH, delete, methods=["DELETE"]),
        *routes_of_levels((_PATH,), level_of, clock),
    ]


def namespace_paths() -> Json:
    """Describe the routes for `/openapi.json`."""
    text, flag, number = ({"type": [each, "null"]} for each in ("string", "boolean", "integer"))
    wish: Json = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "sku": {"enum": [each.value for each in TierName]},
            "premiumPartitioning": {"enum": [each.value for each in PremiumPartitioning]},
            "premiumMessagingPartitions": {"enum": list(NAMESPACE_FRAGMENTS)},
        },
    }
    shown: Json = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("name", "sku", "premiumPartitioning", "createdAt", "updatedAt"), text),
            **dict.fromkeys(("isDefault", "isConfigured"), flag),
            **dict.fromkeys(("queues", "topics"), number),
            "premiumMessagingPartitions": number,
        },
    }
    listed: Json = {"type": "array", "items": shown}
    create = described(_PATH, "Create a namespace; its keys are told", shown, wish)
    create["responses"]["201"] = create["responses"].pop("200")
    delete = described(_PATH, "Delete a namespace", None)
    is_said = {"type": "boolean", "default": False}
    delete["parameters"].append({"name": "withEntities", "in": "query", "schema": is_said})
    create["responses"]["409"] = {"$ref": "#/components/responses/409"}
    return {
        "/$namespaces": {"get": described("/$namespaces", "Every namespace", listed)},
        _PATH: {
            "get": described(_PATH, "One namespace", shown),
            "put": create,
            "patch": described(_PATH, "Change the tier of a namespace", shown, wish),
            "delete": delete,
        },
    }


async def _read_wish(request: Request) -> Json:
    """Read what is said of a namespace; an empty body says nothing."""
    wish = await read_object(request) if await request.body() else {}
    unknown = sorted(wish.keys() - set(_KNOWN))
    if unknown:
        raise ArgumentInvalid(
            f"'{unknown[0]}' cannot be said of a namespace; known are {', '.join(_KNOWN)}."
        )
    return wish


def _tier(wish: Json, before: Tier | None) -> Tier:
    """Return the tier that is wished for; what is not said stays as it was."""
    name = _choice(wish, "sku", TierName)
    partitioning = _choice(wish, "premiumPartitioning", PremiumPartitioning)
    fragments = wish.get("premiumMessagingPartitions")
    if fragments is not None and type(fragments) is not int:
        raise ArgumentInvalid("'premiumMessagingPartitions' must be a number.")
    if before is None:
        return Tier.chosen(name or TierName.STANDARD, partitioning, fragments)
    if name in (None, before.name) and partitioning is None and fragments is None:
        return before
    return Tier.chosen(name or before.name, partitioning, fragments)


def _choice(wish: Json, key: str, kind: type[Choice]) -> Choice | None:
    value = wish.get(key)
    if value is None:
        return None
    for each in kind:
        if isinstance(value, str) and each.value.lower() == value.lower():
            return each
    raise ArgumentInvalid(f"'{key}' must be one of {', '.join(each.value for each in kind)}.")


def _json(namespaces: Namespaces, catalog: Catalog) -> Json:
    record = namespaces.record_of(catalog)
    tier = catalog.tier
    return {
        "name": catalog.namespace,
        "sku": tier.name.value,
        "premiumPartitioning": tier.premium_partitioning.value if tier.is_premium else None,
        "premiumMessagingPartitions": (
            tier.namespace_fragments
            if tier.premium_partitioning is PremiumPartitioning.NAMESPACE
            else None
        ),
        "isDefault": catalog is namespaces.default,
        "isConfigured": record is None,
        "queues": len(catalog.listed(Queue)),
        "topics": len(catalog.listed(Topic)),
        "createdAt": None if record is None else shown_time(record.created_at),
        "updatedAt": None if record is None else shown_time(record.updated_at),
    }
