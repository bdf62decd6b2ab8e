"""Shared access rules in the file: `AuthorizationRules` of the namespace, a queue or a topic.

AuthorizationRules:
- KeyName: orders-sender
  Rights: [Send]                 Send, Listen, or all of Manage, Send and Listen
  PrimaryKey, SecondaryKey       made by the broker if they are not given

Refusals never show the text of a key.
"""

from bendybus.config_file.section import Value
from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import check_access_rule
from bendybus.model.errors import BusError
from bendybus.model.suggestion import suggest


def read_access_rules(value: Value) -> tuple[AccessRule, ...]:
    """Read a list of rules."""
    return tuple([_read_rule(each) for each in value.items()])


def _read_rule(value: Value) -> AccessRule:
    section = value.section(("KeyName", "Rights", "PrimaryKey", "SecondaryKey"))
    rule = AccessRule(
        section.need("KeyName").text(),
        _key(section.get("PrimaryKey")),
        read_rights(section.need("Rights")),
        _key(section.get("SecondaryKey")),
    )
    try:
        check_access_rule(rule)
    except BusError as error:
        raise value.refuse(error.message) from None
    return rule


def _key(value: Value | None) -> str | None:
    if value is None:
        return None
    if not value.is_text:
        # The usual refusal would show what stands there.
        raise value.refuse("must be a text; put it in quotes")
    return value.text()


def read_rights(value: Value) -> frozenset[Right]:
    """Read a list of rights."""
    return frozenset(_right(each) for each in value.items())


def _right(value: Value) -> Right:
    text = value.text()
    try:
        return Right(text)
    except ValueError:
        words = [right.value for right in Right]
        raise value.refuse(f"{text!r} is not a right; {suggest(text, words)}") from None
