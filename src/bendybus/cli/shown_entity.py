"""How entities are printed: a table for people, JSON for programs."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

import typer
from rich.console import Console

from bendybus.atom.properties import Kind
from bendybus.cli.options import Output
from bendybus.cli.plain_table import PlainTable
from bendybus.client.administration import Described
from bendybus.model.access import AccessRule
from bendybus.model.durations import format_duration

_WORDS: Final = {
    Kind.QUEUE: ("queue", "queues"),
    Kind.TOPIC: ("topic", "topics"),
    Kind.SUBSCRIPTION: ("subscription", "subscriptions"),
}
_ENDLESS: Final = frozenset({"default_message_time_to_live", "auto_delete_on_idle"})


def as_json(shown: Described) -> dict[str, Any]:
    """Return an entity in the words of Azure Resource Manager."""
    facts, counts = shown.facts, shown.facts.counts
    properties = {
        _camel(name): _json_value(name, value) for name, value in shown.properties.items()
    }
    if "maxSizeMegabytes" in properties:
        properties["maxSizeInMegabytes"] = properties.pop("maxSizeMegabytes")
    if "maxMessageSizeKilobytes" in properties:
        properties["maxMessageSizeInKilobytes"] = properties.pop("maxMessageSizeKilobytes")
    return {
        "name": shown.name,
        **properties,
        "availability": "Available" if facts.is_available else "Limited",
        "messageCount": facts.message_count,
        "sizeInBytes": facts.size_bytes,
        "countDetails": {
            "activeMessageCount": counts.active,
            "deadLetterMessageCount": counts.dead_letter,
            "scheduledMessageCount": counts.scheduled,
            "transferMessageCount": counts.transfer,
            "transferDeadLetterMessageCount": counts.transfer_dead_letter,
        },
        **({"subscriptionCount": facts.subscription_count} if shown.kind is Kind.TOPIC else {}),
        "createdAt": _time(facts.created_at),
        "updatedAt": _time(facts.updated_at),
        "accessedAt": _time(facts.accessed_at),
    }


def print_deleted(name: str, output: Output) -> None:
    """Tell programs what is gone. People hear nothing, as after any command that did its work."""
    if output is Output.JSON:
        print_json({"name": name, "deleted": True})


def print_entities(entities: Iterable[Described], kind: Kind, output: Output) -> None:
    """Print a list of entities."""
    if output is Output.JSON:
        print_json([as_json(each) for each in entities])
        return
    word = _WORDS[kind][0]
    holds = ["subscriptions"] if kind is Kind.TOPIC else ["active", "dead letters"]
    sizes = [] if kind is Kind.SUBSCRIPTION else ["bytes", "maximum MB"]
    table = PlainTable(word, "status", "availability", *holds, "scheduled", *sizes)
    for each in entities:
        facts, counts = each.facts, each.facts.counts
        held = [facts.subscription_count] if kind is Kind.TOPIC else []
        held = held or [counts.active, counts.dead_letter]
        size = [] if kind is Kind.SUBSCRIPTION else [facts.size_bytes, _size(each)]
        table.add(
            each.name,
            _plain(each.properties.get("status", "")),
            "Available" if facts.is_available else "Limited",
            *(f"{number:,}" for number in [*held, counts.scheduled, *size]),
        )
    Console().print(table)


def print_entity(shown: Described, output: Output) -> None:
    """Print all of one entity."""
    if output is Output.JSON:
        print_json(as_json(shown))
        return
    table = PlainTable("property", "value")
    for name, value in _flat(as_json(shown)):
        table.add(name, value)
    Console().print(table)


def print_json(value: object) -> None:
    """Print for programs."""
    typer.echo(json.dumps(value, indent=2))


def _flat(values: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value)
        else:
            yield name, _plain(value)


def _plain(value: object) -> str:
    match value:
        case None:
            text = ""
        case bool():
            text = "true" if value else "false"
        case Enum():
            text = str(value.value)
        case int():
            text = f"{value:,}"
        case list():
            text = ", ".join(_plain(each) for each in value)
        case dict():
            text = " ".join(_plain(each) for each in value.values())
        case _:
            text = str(value)
    return text


def _json_value(name: str, value: object) -> object:
    match value:
        case timedelta():
            return format_duration(value)
        case None if name in _ENDLESS:
            return format_duration(None)
        case Enum():
            return value.value
        case tuple():
            return [_access_rule(each) for each in value if isinstance(each, AccessRule)]
        case _:
            return value


def _access_rule(rule: AccessRule) -> dict[str, object]:
    """Return a rule without its keys: a list of queues is no place for them."""
    return {"name": rule.name, "rights": sorted(right.value for right in rule.rights)}


def _size(shown: Described) -> int:
    size: int = shown.properties.get("max_size_megabytes", 0)
    return size


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
