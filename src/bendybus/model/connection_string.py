"""The text by which clients find and enter a namespace.

`Endpoint=sb://host[:port];SharedAccessKeyName=…;SharedAccessKey=…;UseDevelopmentEmulator=true;`
Keys are read without case and in any order, as the official clients read them. No error and no
`repr` shows a key or a token: both end up in logs.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bendybus.model.errors import ArgumentInvalid

_SCHEMES: Final = frozenset({"sb", "amqp", "amqps", "http", "https"})
_FIELDS: Final = {
    name.lower(): name
    for name in (
        "Endpoint",
        "SharedAccessKeyName",
        "SharedAccessKey",
        "SharedAccessSignature",
        "EntityPath",
        "UseDevelopmentEmulator",
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionString:
    """A connection string, taken apart. It has a rule with its key, or a ready token."""

    host: str
    port: int | None = None
    rule_name: str | None = None
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    entity_path: str | None = None
    use_development_emulator: bool = False

    def to_text(self) -> str:
        """Write it the way clients read it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        values = {
            "Endpoint": f"sb://{host}{port}",
            "SharedAccessKeyName": self.rule_name,
            "SharedAccessKey": self.key,
            "SharedAccessSignature": self.token,
            "EntityPath": self.entity_path,
            "UseDevelopmentEmulator": "true" if self.use_development_emulator else None,
        }
        return "".join(f"{name}={value};" for name, value in values.items() if value is not None)


def parse_connection_string(text: str) -> ConnectionString:
    """Read a connection string. Raises `ArgumentInvalid` with what is missing or wrong."""
    values = _parse_fields(text)
    host, port = _parse_endpoint(values.get("Endpoint"))
    rule_name, key = values.get("SharedAccessKeyName"), values.get("SharedAccessKey")
    token = values.get("SharedAccessSignature")
    if token is None and (rule_name is None or key is None):
        raise ArgumentInvalid(
            "the connection string needs SharedAccessKeyName and SharedAccessKey,"
            " or SharedAccessSignature"
        )
    if token is not None and key is not None:
        raise ArgumentInvalid(
            "the connection string has both SharedAccessKey and SharedAccessSignature; keep one"
        )
    return ConnectionString(
        host=host,
        port=port,
        rule_name=rule_name,
        key=key,
        token=token,
        entity_path=values.get("EntityPath"),
        use_development_emulator=values.get("UseDevelopmentEmulator", "").lower() == "true",
    )


def _parse_fields(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    parts = filter(None, (part.strip() for part in text.strip().split(";")))
    for number, part in enumerate(parts, 1):
        name, _, value = part.partition("=")
        known = _FIELDS.get(name.strip().lower())
        if known is None:
            # It is not repeated: whoever gave a key alone would find it in a log.
            raise ArgumentInvalid(
                f"part {number} of the connection string begins with none of"
                f" {', '.join(f'{each}=' for each in _FIELDS.values())}"
            )
        if known in values:
            raise ArgumentInvalid(f"the connection string has {known} twice")
        if not value.strip():
            raise ArgumentInvalid(f"the connection string has an empty {known}")
        values[known] = value.strip()
    return values


def _parse_endpoint(endpoint: str | None) -> tuple[str, int | None]:
    if endpoint is None:
        raise ArgumentInvalid("the connection string has no Endpoint, such as sb://localhost")
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ArgumentInvalid(f"the Endpoint {endpoint!r} is not an address") from None
    if parts.scheme.lower() not in _SCHEMES or not host:
        raise ArgumentInvalid(f"the Endpoint {endpoint!r} must be like sb://localhost")
    return host, port
