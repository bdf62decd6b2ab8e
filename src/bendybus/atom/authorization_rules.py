"""Access rules of a queue or topic, with their keys."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from bendybus.atom.values import write_date_time
from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import text_element
from bendybus.model.access import AccessRule, Right
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant
from bendybus.model.time_values import Moment

_KIND: Final = "SharedAccessAuthorizationRule"
# In the order in which the service writes them.
_RIGHTS: Final = (Right.MANAGE, Right.SEND, Right.LISTEN)


def read_access_rules(element: Element) -> tuple[AccessRule, ...]:
    """Read all access rules of an entity."""
    return tuple([_read_rule(each) for each in element.find_all("AuthorizationRule")])


def write_access_rules(rules: Sequence[AccessRule]) -> str:
    """Write the content of the element that holds them."""
    return "".join(_rule(rule) for rule in rules)


def _read_rule(element: Element) -> AccessRule:
    if element.type_name not in {"", _KIND}:
        raise ArgumentInvalid(
            f"{element.type_name!r} is not a type of authorization rule; use {_KIND}"
        )
    name = (element.text_of("KeyName") or "").strip()
    if not name:
        raise ArgumentInvalid("an authorization rule needs a KeyName")
    # A key that is not given is made by whoever keeps the rule.
    return AccessRule(
        name,
        (element.text_of("PrimaryKey") or "").strip() or None,
        _read_rights(element.find("Rights")),
        (element.text_of("SecondaryKey") or "").strip() or None,
        _read_time(element, "CreatedTime"),
        _read_time(element, "ModifiedTime"),
    )


def _read_rights(element: Element | None) -> frozenset[Right]:
    words = [] if element is None else [each.text.strip() for each in element.children]
    try:
        return frozenset(Right(word) for word in words)
    except ValueError:
        raise ArgumentInvalid(
            f"the rights {', '.join(words)} are not all of Listen, Send and Manage"
        ) from None


def _rule(rule: AccessRule) -> str:
    rights = "".join(
        text_element("AccessRights", right.value) for right in _RIGHTS if right in rule.rights
    )
    return (
        f'<AuthorizationRule i:type="{_KIND}">'
        "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>"
        f"<Rights>{rights}</Rights>{_time('CreatedTime', rule.created_at)}"
        f"{_time('ModifiedTime', rule.modified_at)}{text_element('KeyName', rule.name)}"
        f"{_key('PrimaryKey', rule.primary_key)}{_key('SecondaryKey', rule.secondary_key)}"
        "</AuthorizationRule>"
    )


def _key(name: str, key: str | None) -> str:
    return "" if key is None else text_element(name, key)


def _time(name: str, at: Instant | None) -> str:
    if at is None:
        return ""
    return text_element(name, write_date_time(datetime.fromtimestamp(at / 1000, UTC)))


def _read_time(element: Element, name: str) -> Instant | None:
    """Read a time that clients only send back; what is none is left out."""
    text = (element.text_of(name) or "").strip()
    try:
        return Instant(Moment.from_text(text)) if text else None
    except ArgumentInvalid:
        return None
