"""The rules of a triage: which dead letters, and what becomes of them.

    rules:
      - name: timeouts
        match:
          entity: orders                    # or topic/Subscriptions/name; * stands for anything
          reason: MaxDeliveryCountExceeded
          text: "Timeout after <n> ms*"     # the folded text, as the report shows it
          where: "delivery_count > 3"       # any condition of Spark SQL
        do: redrive                         # or edit, archive, drop
        to: orders-slow                     # another entity; where they were, if none is named
      - match: {reason: Rejected}
        do: edit
        set:
          body: "replace(cast(body AS STRING), 'EURO', 'EUR')"
          properties.retried: "true"
        remove: [attempt]
      - match: {text: "*"}
        do: archive
        into: /data/dead-letters

All that a `match` says must be true; of several values in a list, one. The first rule that matches
a message counts, and one that none matches stays. Everything is checked before anything is done,
and a mistake is told with its line and column.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from bendybus.config_file.file_text import parse_file
from bendybus.config_file.section import Section, Value
from bendybus.model.suggestion import suggest

RULES_MAX: Final = 100

# The columns that an edit may set, by the names that the broker has for them.
SETTABLE: Final = {
    "message_id": "MessageId",
    "session_id": "SessionId",
    "partition_key": "PartitionKey",
    "correlation_id": "CorrelationId",
    "subject": "Label",
    "content_type": "ContentType",
    "to": "To",
    "reply_to": "ReplyTo",
    "reply_to_session_id": "ReplyToSessionId",
}
BODY: Final = "body"
PROPERTY: Final = "properties."
_MATCH_KEYS: Final = ("entity", "reason", "text", "where")
_RULE_KEYS: Final = ("name", "match", "do", "to", "set", "remove", "into")


class Deed(StrEnum):
    """What becomes of a dead letter."""

    REDRIVE = "redrive"
    EDIT = "edit"
    ARCHIVE = "archive"
    DROP = "drop"


# Which keys a deed may have beside `name`, `match` and `do`.
_KEYS_OF: Final = {
    Deed.REDRIVE: ("to",),
    Deed.EDIT: ("to", "set", "remove"),
    Deed.ARCHIVE: ("into",),
    Deed.DROP: (),
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A piece of Spark SQL, and where in the file it stands."""

    text: str
    place: Value


@dataclass(frozen=True, slots=True)
class Match:
    """What must be true of a dead letter: one pattern of each list that is not empty."""

    entities: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    name: str
    match: Match
    deed: Deed
    to: str | None = None
    into: str | None = None
    # By column, or by `properties.` and a name.
    changes: Mapping[str, Expression] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


def load_rules(path: Path) -> list[Rule]:
    """Read a file of rules. Raises `ConfigInvalid`, naming the place and what would be right."""
    root = Value(parse_file(path), "").section(("rules",))
    values = list(root.need("rules").items())
    if not values:
        raise root.need("rules").refuse("there is no rule; write at least one")
    if len(values) > RULES_MAX:
        raise root.need("rules").refuse(f"more than {RULES_MAX} rules")
    rules = [_rule(value, f"rule {number}") for number, value in enumerate(values, start=1)]
    names: dict[str, Value] = {}
    for rule, value in zip(rules, values, strict=True):
        if rule.name in names:
            line = names[rule.name].node.place.line
            raise value.refuse(f"there is another rule called '{rule.name}' on line {line}")
        names[rule.name] = value
    return rules


def _rule(value: Value, default_name: str) -> Rule:
    section = value.section(_RULE_KEYS)
    deed = _deed(section.need("do"))
    for key, given in section.values.items():
        if key in ("name", "match", "do") or key in _KEYS_OF[deed]:
            continue
        fitting = " or ".join(each for each, keys in _KEYS_OF.items() if key in keys)
        raise given.refuse(f"belongs to a rule that says do: {fitting}, not do: {deed}")
    name, to, into = section.get("name"), section.get("to"), section.get("into")
    changes = _changes(section.get("set"))
    removed = tuple(each.text() for each in section.items("remove"))
    if deed is Deed.EDIT and not changes and not removed:
        raise value.refuse("an edit needs set or remove")
    if deed is Deed.ARCHIVE:
        into = section.need("into")
    return Rule(
        default_name if name is None else name.text(),
        _match(section.need("match")),
        deed,
        None if to is None else to.text(),
        None if into is None else into.text(),
        changes,
        removed,
    )


def _deed(value: Value) -> Deed:
    text = value.text()
    try:
        return Deed(text)
    except ValueError:
        raise value.refuse(f"'{text}' is not known; {suggest(text, list(Deed))}") from None


def _match(value: Value) -> Match:
    section = value.section(_MATCH_KEYS)
    if not section.values:
        raise value.refuse('says nothing; to mean all dead letters, write text: "*"')
    where = section.get("where")
    return Match(
        _texts(section, "entity"),
        _texts(section, "reason"),
        _texts(section, "text"),
        None if where is None else Expression(where.text(), where),
    )


def _texts(section: Section, key: str) -> tuple[str, ...]:
    """Read a text, or a list of them."""
    value = section.get(key)
    if value is None:
        return ()
    texts = (value.text(),) if value.is_text else tuple(each.text() for each in value.items())
    if not texts:
        raise value.refuse("an empty list matches nothing; name something, or leave it out")
    return texts


def _changes(value: Value | None) -> dict[str, Expression]:
    if value is None:
        return {}
    changes: dict[str, Expression] = {}
    for key, given in value.section(None).values.items():
        is_property = key.startswith(PROPERTY) and len(key) > len(PROPERTY)
        if not is_property and key not in (BODY, *SETTABLE):
            known = (BODY, *SETTABLE, f"{PROPERTY}NAME")
            raise given.refuse(f"cannot be set; {suggest(key, known)}")
        changes[key] = Expression(given.text(), given)
    return changes
