"""Keys of shared access rules: where new ones come from, and what a configuration says of them."""

import base64
import dataclasses
import secrets
from typing import Final

from bendybus.model.access import AccessRule
from bendybus.model.access_rules import completed, declared, merged_with_declared
from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.ids import Instant

KEY_BYTES: Final = 32


def new_key() -> str:
    """Make a key that nobody can guess, in the form that the service gives them."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")


def with_declared_access(
    before: Queue | Topic | Subscription | None,
    entity: Queue | Topic | Subscription,
    now: Instant,
) -> Queue | Topic | Subscription:
    """Return an entity of a configuration with the rules that it will have."""
    if isinstance(entity, Subscription):
        return entity
    known = _rules_of(before)
    merged = merged_with_declared(known, declared(entity.properties.authorization_rules))
    rules = completed(merged, known, make_key=new_key, now=now)
    return with_access(entity, rules)


def with_whole_access(
    before: Queue | Topic | Subscription | None,
    entity: Queue | Topic | Subscription,
    now: Instant,
) -> Queue | Topic | Subscription:
    """Return an entity whose rules have their keys, made where none are given, and times."""
    if isinstance(entity, Subscription):
        return entity
    rules = entity.properties.authorization_rules
    return with_access(entity, completed(rules, _rules_of(before), make_key=new_key, now=now))


def with_access(entity: Queue | Topic, rules: tuple[AccessRule, ...]) -> Queue | Topic:
    """Return an entity with other rules."""
    if isinstance(entity, Queue):
        of_queue = dataclasses.replace(entity.properties, authorization_rules=rules)
        return dataclasses.replace(entity, properties=of_queue)
    of_topic = dataclasses.replace(entity.properties, authorization_rules=rules)
    return dataclasses.replace(entity, properties=of_topic)


def _rules_of(entity: Queue | Topic | Subscription | None) -> tuple[AccessRule, ...]:
    if entity is None or isinstance(entity, Subscription):
        return ()
    return entity.properties.authorization_rules
