"""The description of a namespace."""

from dataclasses import dataclass
from datetime import datetime

from bendybus.atom.values import write_date_time
from bendybus.atom.xml_reading import Element
from bendybus.atom.xml_writing import text_element
from bendybus.model.time_values import parse_date_time


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDescription:
    """What a namespace says of itself; `messaging_units` only in the Premium tier."""

    name: str
    created_at: datetime
    modified_at: datetime
    tier: str = "Standard"
    messaging_units: int | None = None


def write_namespace(info: NamespaceDescription) -> str:
    """Write the content of the description."""
    units = "" if info.messaging_units is None else f"{info.messaging_units:d}"
    return (
        f"{text_element('CreatedTime', write_date_time(info.created_at))}"
        f"{text_element('MessagingSKU', info.tier)}"
        f"{text_element('MessagingUnits', units) if units else ''}"
        f"{text_element('ModifiedTime', write_date_time(info.modified_at))}"
        f"{text_element('Name', info.name)}<NamespaceType>Messaging</NamespaceType>"
    )


def read_namespace(description: Element) -> NamespaceDescription:
    """Read the description. Raises `ArgumentInvalid`."""
    units = (description.text_of("MessagingUnits") or "").strip()
    return NamespaceDescription(
        name=(description.text_of("Name") or "").strip(),
        created_at=parse_date_time((description.text_of("CreatedTime") or "").strip()),
        modified_at=parse_date_time((description.text_of("ModifiedTime") or "").strip()),
        tier=(description.text_of("MessagingSKU") or "").strip(),
        messaging_units=int(units) if units.isdecimal() else None,
    )
