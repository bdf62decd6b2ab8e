"""Readers over HTTP: who keeps messages for itself, and taking them back.

GET   /$readers          every reader of the namespace
POST  /$readers/release  {"address": "orders/$DeadLetterQueue", "reader": "capture"}
"""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.following import found
from bendybus.broker.give_back import give_back
from bendybus.broker.readers import Reader, readers_of_namespace
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.http.authorization import Authorization
from bendybus.http.json_body import read_object
from bendybus.model.actions import Action
from bendybus.model.addresses import Address, parse_address
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant

Json = dict[str, Any]


def reader_routes(catalog: Catalog, authorization: Authorization, clock: Clock) -> list[Route]:
    """Return the routes. Both need the right to manage: one tells of all entities, one undoes."""

    async def list_readers(request: Request) -> Response:
        await authorization.require(request, Action.MANAGE_ENTITY)
        found = await readers_of_namespace(catalog.holdings, catalog.namespace, clock)
        return JSONResponse([_json(sub_queue, reader) for sub_queue, reader in found])

    async def release(request: Request) -> Response:
        address, name, skips_offline = await _read_release(request)
        await authorization.require(request, Action.MANAGE_ENTITY, entity=address.path)
        sub_queue = await found(catalog.records.following, lambda: _sub_queue(catalog, address))
        freed = await give_back(sub_queue, name, None, clock, skips_offline=skips_offline)
        return JSONResponse({"messages": freed.messages, "skipped": freed.skipped})

    return [
        Route("/$readers", list_readers, methods=["GET"]),
        Route("/$readers/release", release, methods=["POST"]),
    ]


def reader_paths() -> Json:
    """Describe the routes for `/openapi.json`."""
    text: Json = {"type": "string"}
    number: Json = {"type": "integer"}
    time: Json = {"type": ["string", "null"]}
    reader = {
        "address": text,
        "reader": text,
        "isActive": {"type": "boolean"},
        "activeAt": time,
        "openedAt": time,
        "oldestAt": time,
        "reservedMessages": number,
        "reservedBytes": number,
        "lag": number,
        "fragments": {"type": "object"},
    }
    wish = {"address": text, "reader": text, "skipOffline": {"type": "boolean"}}
    freed = {"messages": number, "skipped": {"type": "array", "items": number}}
    listed = {"type": "array", "items": {"type": "object", "properties": reader}}
    return {
        "/$readers": {"get": _described("Every reader of the namespace", listed, (401, 429))},
        "/$readers/release": {
            "post": {
                **_described(
                    "Give back what a reader has reserved, and forget the reader",
                    {"type": "object", "properties": freed},
                    (400, 401, 404, 410, 429, 503),
                ),
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["address", "reader"],
                                "properties": wish,
                            }
                        }
                    }
                },
            }
        },
    }


def _described(summary: str, answer: Json, refusals: tuple[int, ...]) -> Json:
    return {
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": answer}}},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in refusals},
        },
    }


async def _read_release(request: Request) -> tuple[Address, str, bool]:
    fields = await read_object(request)
    name, skips_offline = fields.get("reader"), fields.get("skipOffline", False)
    if not isinstance(name, str) or not isinstance(skips_offline, bool):
        raise ArgumentInvalid("'reader' must be a text, and 'skipOffline' true or false.")
    return parse_address(fields.get("address")), name, skips_offline


def _sub_queue(catalog: Catalog, address: Address) -> ServedSubQueue:
    if address.subscription is None:
        return catalog.queue(address.path).sub_queues[address.sub_queue]
    return catalog.subscription(address.path, address.subscription).sub_queues[address.sub_queue]


def _json(sub_queue: ServedSubQueue, reader: Reader) -> Json:
    return {
        "address": Address(sub_queue.queue.name, sub_queue=sub_queue.sub_queue).resource,
        "reader": reader.name,
        "isActive": reader.is_active,
        "activeAt": _time(reader.active_at),
        "openedAt": _time(reader.opened_at),
        "oldestAt": _time(reader.oldest_at),
        "reservedMessages": reader.messages,
        "reservedBytes": reader.bytes,
        "lag": reader.lag,
        "fragments": {
            str(fragment): {
                "position": each.position,
                "committed": each.committed,
                "reservedMessages": each.messages,
                "lag": each.lag,
            }
            for fragment, each in reader.fragments.items()
        },
    }


def _time(instant: Instant | None) -> str | None:
    """Return an instant as text; None if there was none."""
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat() if instant else None
