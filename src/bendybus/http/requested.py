"""What the body of a PUT asks for, as an entity of the model."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar

from bendybus.atom.entries import Entry, read_entry
from bendybus.atom.properties import PARTS, Kind, element_of, left_out, read_properties
from bendybus.atom.rules import read_rule
from bendybus.atom.values import host_in_entity_url
from bendybus.http.api_version import ApiVersion
from bendybus.http.entity_path import EntityPath
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.rule import DEFAULT_RULE_NAME, Rule

# Says of a host, with or without a port, whether it means another namespace than this one.
IsElsewhere = Callable[[str], bool]

_FORWARDS: Final = ("ForwardTo", "ForwardDeadLetteredMessagesTo")

Properties = TypeVar("Properties", QueueProperties, TopicProperties, SubscriptionProperties)


def read_body(body: bytes, path: EntityPath, is_elsewhere: IsElsewhere) -> Entry:
    """Read an entry that fits the path, and the namespace. Raises `ArgumentInvalid`."""
    entry = read_entry(body)
    allowed = (Kind.QUEUE, Kind.TOPIC) if path.kind is None else (path.kind,)
    if entry.kind not in allowed:
        wanted = " or ".join(kind.value for kind in allowed)
        raise ArgumentInvalid(f"The body holds a {entry.kind.value}; this path takes a {wanted}.")
    for name in _FORWARDS:
        target = entry.description.find(name)
        host = None if target is None else host_in_entity_url(target)
        if host is not None and is_elsewhere(host):
            raise ArgumentInvalid(
                f"the host {host[:260]!r} is that of another namespace; messages are forwarded"
                " within one",
                argument=PARTS[name].field,
            )
    return entry


def requested_rule(entry: Entry, path: EntityPath) -> Rule:
    """Return the rule that is to be made or changed."""
    return read_rule(entry.description, path.rule or "")


def new_entity(entry: Entry, path: EntityPath, version: ApiVersion) -> Queue | Topic | Subscription:
    """Return the entity that is to be created. Raises `ArgumentInvalid`."""
    given = _given(entry, version)
    name = path.subscription or path.entity or ""
    match entry.kind:
        case Kind.QUEUE:
            return Queue(name, QueueProperties(**given))
        case Kind.TOPIC:
            return Topic(name, TopicProperties(**given))
        case _:
            return Subscription(name, SubscriptionProperties(**given), (_default_rule(entry),))


def changed_entity(
    entry: Entry, before: Queue | Topic | Subscription, version: ApiVersion
) -> Queue | Topic | Subscription:
    """Return an entity with what the entry says, and otherwise as it was.

    Raises `ArgumentInvalid`.
    """
    match entry.kind, before:
        case Kind.QUEUE, Queue():
            return dataclasses.replace(
                before, properties=_changed(before.properties, entry, version)
            )
        case Kind.TOPIC, Topic():
            return dataclasses.replace(
                before, properties=_changed(before.properties, entry, version)
            )
        case Kind.SUBSCRIPTION, Subscription():
            return dataclasses.replace(
                before, properties=_changed(before.properties, entry, version)
            )
        case _:
            kind = type(before).__name__.lower()
            raise ArgumentInvalid(f"'{before.name}' is a {kind}, and stays one.")


def naming_element(error: ArgumentInvalid) -> ArgumentInvalid:
    """Return the refusal with the name of the element that it is about, where that is known."""
    element = element_of(error.argument)
    if element is None or error.message.startswith(f"{element}:"):
        return error
    return type(error)(f"{element}: {error.message}", argument=error.argument)


def _given(entry: Entry, version: ApiVersion) -> dict[str, Any]:
    given = read_properties(entry.description, entry.kind)
    version.check_settable(given)
    return given


def _changed(before: Properties, entry: Entry, version: ApiVersion) -> Properties:
    given = _given(entry, version)
    size = given.get("max_size_megabytes")
    if size is not None and not isinstance(before, SubscriptionProperties):
        # Clients send back the size that they were told, which is that of all fragments.
        is_told = size == before.effective_max_size_megabytes
        given["max_size_megabytes"] = before.max_size_megabytes if is_told else size
    return dataclasses.replace(before, **{**left_out(entry.description, entry.kind), **given})


def _default_rule(entry: Entry) -> Rule:
    described = entry.description.find("DefaultRuleDescription")
    if described is None or described.is_nil:
        return Rule()
    return read_rule(described, (described.text_of("Name") or "").strip() or DEFAULT_RULE_NAME)
