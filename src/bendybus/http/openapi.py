"""`/openapi.json`: the requests that a client can make without an SDK, in the form tools read.

The management API is not here: it is ATOM, which OpenAPI has no words for; see docs/management.md.
A test holds this against what is served, and another makes requests by it.
"""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import bendybus
from bendybus.http.access_rules import access_rule_paths
from bendybus.http.namespaces import namespace_paths
from bendybus.http.readers import reader_paths
from bendybus.http.rest_send import BATCH_TYPE
from bendybus.http.store_moves import store_move_paths
from bendybus.model.limits import KEY_LENGTH_MAX

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_KEY: Final[Json] = {"type": "string", "maxLength": KEY_LENGTH_MAX}
_PROBLEMS: Final = {
    400: "The request is malformed, or makes no sense for the entity",
    401: "There is no token, or it does not give the right",
    403: "The entity is full, or its status forbids it",
    404: "There is no such entity",
    409: "There is one of that name already",
    410: "The lock has ended",
    413: "The message is too large",
    429: "There are more requests than the namespace takes; try again later",
    503: "A store is away or the broker is overloaded; try again later",
}


def openapi_routes() -> list[Route]:
    """Return the route. It needs no token: everybody can read it in the sources."""

    async def describe(_: Request) -> Response:
        return JSONResponse(document())

    return [Route("/openapi.json", describe)]


def document() -> Json:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bendybus",
            "version": bendybus.__version__,
            "description": "Messages over HTTP, and what operators ask. Names of entities that"
            " contain slashes are written with %2F or with the slashes themselves."
            " A dead-letter queue is received from by the name of its entity and"
            " /$DeadLetterQueue.",
        },
        "security": [{"token": []}],
        "paths": {
            **_messaging(),
            **_operating(),
            **store_move_paths(),
            **reader_paths(),
            **namespace_paths(),
            **access_rule_paths(),
        },
        "components": {
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"}
            },
            "schemas": {
                "BrokerProperties": _broker_properties(),
                "Batch": _batch(),
                "Health": _object({"status": _TEXT, "message": _TEXT}),
                "Store": _object(
                    {
                        "number": {"type": "integer"},
                        "state": _TEXT,
                        "reason": {"type": ["string", "null"]},
                        "path": _TEXT,
                        "bytes": {"type": "integer"},
                        "fragments": {"type": "integer"},
                    }
                ),
            },
            "responses": {
                str(status): {
                    "description": text,
                    "content": {"application/xml": {"schema": _TEXT}},
                }
                for status, text in _PROBLEMS.items()
            },
        },
    }


def _messaging() -> Json:
    paths: Json = {"/{entity}/messages": {"post": _send()}}
    for entity in ("/{queue}", "/{topic}/subscriptions/{subscription}"):
        paths[f"{entity}/messages/head"] = {
            "post": _receive(entity, "Receive the next message under lock", 201),
            "delete": _receive(entity, "Receive the next message for good", 200),
        }
        paths[f"{entity}/messages/{{id}}/{{lockToken}}"] = {
            "delete": _settle(entity, "Complete a locked message"),
            "put": _settle(entity, "Unlock a message, so that it can be received again"),
            "post": _settle(entity, "Renew the lock of a message"),
        }
    return paths


def _send() -> Json:
    binary = {"schema": {"type": "string", "format": "binary"}}
    batch = {"schema": {"$ref": "#/components/schemas/Batch"}}
    return {
        "summary": "Send a message, or a batch of messages",
        "description": "Every header that says nothing about the request itself is a property of"
        " the message.",
        "parameters": [
            *_path("/{entity}"),
            _api_version(),
            {
                "name": "BrokerProperties",
                "in": "header",
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/BrokerProperties"}
                    }
                },
            },
        ],
        "requestBody": {"content": {"*/*": binary, BATCH_TYPE: batch}},
        "responses": {
            "201": {"description": "It is stored"},
            **_refusals(400, 401, 403, 404, 413, 429, 503),
        },
    }


def _receive(entity: str, summary: str, status: int) -> Json:
    timeout = {"type": "number", "minimum": 0, "default": 60}
    return {
        "summary": summary,
        "parameters": [
            *_path(entity),
            {"name": "timeout", "in": "query", "schema": timeout},
            _api_version(),
        ],
        "responses": {
            str(status): {
                "description": "The body of the message",
                "headers": {"BrokerProperties": {"schema": _TEXT}},
            },
            "204": {"description": "There was none in the time"},
            **_refusals(400, 401, 403, 404, 429, 503),
        },
    }


def _settle(entity: str, summary: str) -> Json:
    return {
        "summary": summary,
        "parameters": [
            *_path(entity),
            {"name": "id", "in": "path", "required": True, "schema": _TEXT},
            {
                "name": "lockToken",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "format": "uuid"},
            },
            _api_version(),
        ],
        "responses": {"200": {"description": "Done"}, **_refusals(400, 401, 404, 410, 429, 503)},
    }


def _operating() -> Json:
    health = {"application/json": {"schema": {"$ref": "#/components/schemas/Health"}}}
    stores = {"type": "array", "items": {"$ref": "#/components/schemas/Store"}}
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}
    changed = {"204": {"description": "It is so now"}, **_refusals(401, 404, 429, 503)}
    paths: Json = {
        path: {
            "get": {
                "summary": summary,
                "security": [],
                "responses": {
                    "200": {"description": "Yes", "content": health},
                    "503": {"description": "No", "content": health},
                },
            }
        }
        for path, summary in {
            "/health": "Whether the broker runs",
            "/ready": "Whether the broker can take messages",
        }.items()
    }
    return paths | {
        "/openapi.json": {
            "get": {
                "summary": "This description",
                "security": [],
                "responses": {"200": {"description": "This description"}},
            }
        },
        "/metrics": {"get": _metrics()},
        "/$stores": {
            "get": {
                "summary": "The messaging stores",
                "responses": {
                    "200": {
                        "description": "Each with its state",
                        "content": {"application/json": {"schema": stores}},
                    },
                    **_refusals(401, 429),
                },
            }
        },
        "/$stores/{number}/offline": {
            "post": {
                "summary": "Take a store away",
                "parameters": [number],
                "responses": changed,
            }
        },
        "/$stores/{number}/online": {
            "post": {
                "summary": "Bring a store back",
                "parameters": [number],
                "responses": changed,
            }
        },
    }


def _metrics() -> Json:
    return {
        "summary": "The figures of the broker, for Prometheus",
        "responses": {
            "200": {
                "description": "One line for each",
                "content": {"text/plain": {"schema": _TEXT}},
            },
            **_refusals(401),
        },
    }


def _path(template: str) -> list[Json]:
    names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]


def _api_version() -> Json:
    schema = {"type": "string", "pattern": r"^\d{4}-\d{2}(-\d{2})?(-preview)?$"}
    return {"name": "api-version", "in": "query", "schema": schema}


def _refusals(*statuses: int) -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _broker_properties() -> Json:
    return {
        "type": "object",
        "properties": {
            "ContentType": _TEXT,
            "CorrelationId": _TEXT,
            "Label": _TEXT,
            "MessageId": _KEY,
            "PartitionKey": _KEY,
            "ReplyTo": _TEXT,
            "ReplyToSessionId": _KEY,
            "ScheduledEnqueueTimeUtc": {
                "type": "string",
                "examples": ["Sun, 06 Nov 1994 08:49:37 GMT"],
            },
            "SessionId": _KEY,
            "TimeToLive": {"type": "number", "exclusiveMinimum": 0, "description": "in seconds"},
            "To": _TEXT,
            "ViaPartitionKey": _KEY,
        },
    }


def _batch() -> Json:
    message = {
        "type": "object",
        "required": ["Body"],
        "additionalProperties": False,
        "properties": {
            "Body": _TEXT,
            "IsBodyBase64": {"type": "boolean"},
            "BrokerProperties": {"$ref": "#/components/schemas/BrokerProperties"},
            "UserProperties": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            },
        },
    }
    return {"type": "array", "minItems": 1, "items": message}
