"""Access rules over HTTP: of the namespace, or of a queue or topic before `/$authorizationRules`.

    GET     …/$authorizationRules                        every rule, without its keys
    GET     …/$authorizationRules/<name>                 one rule, without its keys
    PUT     …/$authorizationRules/<name>                 {"rights": ["Send"]}, and keys if wanted
    DELETE  …/$authorizationRules/<name>
    POST    …/$authorizationRules/<name>/listKeys
    POST    …/$authorizationRules/<name>/regenerateKeys  {"keyType": "PrimaryKey"}, and a key

The words and the JSON are those of the service's own management of them (Azure Resource Manager).
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.broker.access_rules import (
    access_rules,
    delete_access_rule,
    put_access_rule,
    renew_key,
)
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.http.authorization import Authorization
from bendybus.http.json_body import read_object
from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import KeyKind, rule_named
from bendybus.model.actions import Action
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant

# Keys are not for caches on the way.
NOT_KEPT: Final = {"Cache-Control": "no-store"}
_WORD: Final = "$authorizationRules"

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]
# A namespace, and the name of a queue or topic of it, or None for the namespace itself.
Level = tuple[Catalog, str | None]


def access_rule_routes(catalog: Catalog, authorization: Authorization, clock: Clock) -> list[Route]:
    """Return the routes. All need the right to manage: who may make rules may do everything."""

    async def level_of(request: Request) -> Level:
        entity: str | None = request.path_params.get("entity")
        await authorization.require(request, Action.MANAGE_ACCESS, entity=entity)
        await catalog.records.following.look()
        return catalog, entity

    return routes_of_levels(("", "/{entity:path}"), level_of, clock)


def routes_of_levels(
    paths: Sequence[str], level_of: Callable[[Request], Awaitable[Level]], clock: Clock
) -> list[Route]:
    """Return routes under some paths. What a request is about is found for who may, or raises."""

    async def list_rules(request: Request) -> Response:
        return JSONResponse([_json(rule) for rule in access_rules(*await level_of(request))])

    async def show(request: Request) -> Response:
        rules = access_rules(*await level_of(request))
        return JSONResponse(_json(rule_named(rules, request.path_params["name"])))

    async def put(request: Request) -> Response:
        catalog, entity = await level_of(request)
        wish = _read_rule(request.path_params["name"], await read_object(request))
        rule = await put_access_rule(catalog, entity, wish, now=clock.now())
        return JSONResponse(_json(rule))

    async def delete(request: Request) -> Response:
        catalog, entity = await level_of(request)
        await delete_access_rule(catalog, entity, request.path_params["name"], now=clock.now())
        return Response(status_code=204)

    async def list_keys(request: Request) -> Response:
        rules = access_rules(*await level_of(request))
        rule = rule_named(rules, request.path_params["name"])
        return JSONResponse(json_of_keys(rule), headers=NOT_KEPT)

    async def regenerate_keys(request: Request) -> Response:
        catalog, entity = await level_of(request)
        fields = await read_object(request)
        rule = await renew_key(
            catalog,
            entity,
            request.path_params["name"],
            _read_kind(fields.get("keyType")),
            key=_text_or_none(fields, "key"),
            now=clock.now(),
        )
        return JSONResponse(json_of_keys(rule), headers=NOT_KEPT)

    served: list[tuple[str, str, Handler]] = [
        ("GET", "", list_rules),
        ("GET", "/{name}", show),
        ("PUT", "/{name}", put),
        ("DELETE", "/{name}", delete),
        ("POST", "/{name}/listKeys", list_keys),
        ("POST", "/{name}/regenerateKeys", regenerate_keys),
    ]
    return [
        Route(f"{level}/{_WORD}{path}", handler, methods=[method])
        for method, path, handler in served
        for level in paths
    ]


def access_rule_paths() -> Json:
    """Describe the routes for `/openapi.json`."""
    text: Json = {"type": "string"}
    rights: Json = {"type": "array", "items": {"enum": [right.value for right in Right]}}
    times = {name: {"type": ["string", "null"]} for name in ("createdAt", "modifiedAt")}
    rule: Json = {"type": "object", "properties": {"name": text, "rights": rights, **times}}
    keys: Json = {
        "type": "object",
        "properties": {"keyName": text, "primaryKey": text, "secondaryKey": text},
    }
    wish: Json = {
        "type": "object",
        "required": ["rights"],
        "properties": {"rights": rights, "primaryKey": text, "secondaryKey": text},
    }
    renewal: Json = {
        "type": "object",
        "required": ["keyType"],
        "properties": {"keyType": {"enum": [kind.value for kind in KeyKind]}, "key": text},
    }
    paths: Json = {}
    for level in ("", "/{entity}", "/$namespaces/{namespace}"):
        path = f"{level}/{_WORD}"
        paths |= {
            path: {"get": described(path, "Every access rule, without its keys", rule)},
            f"{path}/{{name}}": {
                "get": described(f"{path}/{{name}}", "One access rule, without its keys", rule),
                "put": described(f"{path}/{{name}}", "Make or change an access rule", rule, wish),
                "delete": described(f"{path}/{{name}}", "Delete an access rule", None),
            },
            f"{path}/{{name}}/listKeys": {
                "post": described(f"{path}/{{name}}", "The keys of an access rule", keys)
            },
            f"{path}/{{name}}/regenerateKeys": {
                "post": described(f"{path}/{{name}}", "Replace a key", keys, renewal)
            },
        }
    return paths


def described(path: str, summary: str, answer: Json | None, body: Json | None = None) -> Json:
    """Describe one operation whose answer and body are JSON."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    operation: Json = {
        "summary": summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ],
        "responses": {
            "204" if answer is None else "200": {"description": summary},
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                for status in (400, 401, 403, 404, 503)
            },
        },
    }
    if answer is not None:
        operation["responses"]["200"]["content"] = {"application/json": {"schema": answer}}
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation


def _read_rule(name: str, fields: dict[str, Any]) -> AccessRule:
    rights = fields.get("rights")
    words = [right.value for right in Right]
    if not isinstance(rights, list) or any(each not in words for each in rights):
        raise ArgumentInvalid(f"'rights' must be a list of {', '.join(words)}.")
    return AccessRule(
        name,
        _text_or_none(fields, "primaryKey"),
        frozenset(Right(each) for each in rights),
        _text_or_none(fields, "secondaryKey"),
    )


def _read_kind(value: object) -> KeyKind:
    try:
        return KeyKind(value)
    except ValueError:
        words = " or ".join(kind.value for kind in KeyKind)
        raise ArgumentInvalid(f"'keyType' must be {words}.") from None


def _text_or_none(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ArgumentInvalid(f"'{name}' must be a text.")
    return value


def _json(rule: AccessRule) -> dict[str, object]:
    return {
        "name": rule.name,
        "rights": [right.value for right in Right if right in rule.rights],
        "createdAt": shown_time(rule.created_at),
        "modifiedAt": shown_time(rule.modified_at),
    }


def json_of_keys(rule: AccessRule) -> dict[str, object]:
    """Return a rule's keys, which are told to who asks for them alone."""
    return {
        "keyName": rule.name,
        "primaryKey": rule.primary_key,
        "secondaryKey": rule.secondary_key,
    }


def shown_time(instant: Instant | None) -> str | None:
    """Return a moment as JSON tells it."""
    if instant is None:
        return None
    return f"{datetime.fromtimestamp(instant / 1000, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
