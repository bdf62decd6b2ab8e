"""Messages for topics: contents that rules can look into."""

from collections.abc import Mapping

from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.content.incoming_message import read_message
from bendybus.content.stored_content import split_content
from bendybus.model.message import Message, StoredMessage
from bendybus.testing.clock import ManualClock

_LABEL = 3
_GROUP_ID = 10


def note(
    body: str,
    properties: Mapping[str, object] | None = None,
    *,
    label: str | None = None,
    session_id: str | None = None,
) -> Message:
    """Make a message as a client would send it."""
    fields: list[object] = [f"id of {body[:20]}"] + [None] * _GROUP_ID
    fields[_LABEL] = label
    fields[_GROUP_ID] = session_id
    return read_message(
        encode_properties(fields)
        + encode_section(SectionCode.APPLICATION_PROPERTIES, dict(properties or {}))
        + encode_section(SectionCode.DATA, body.encode())
    )


async def send_notes(queue: ServedQueue, clock: ManualClock, *notes: Message) -> None:
    """Send messages, those of one fragment together."""
    for fragment, places in group_by_fragment(queue, notes).items():
        await send(queue, [notes[at] for at in places], fragment, clock)


def seen(message: StoredMessage) -> tuple[str, dict[object, object], object]:
    """Return body, properties and label of a message."""
    bare = message.content[split_content(message.content)[1] :]
    sections = {section.code: section for section in find_sections(bare)}
    data = sections[SectionCode.DATA]
    body = decode_section(bare, data)
    assert isinstance(body, bytes)
    properties = sections.get(SectionCode.APPLICATION_PROPERTIES)
    return (
        body.decode(),
        {} if properties is None else decode_map(bare, properties),
        decode_list(bare, sections[SectionCode.PROPERTIES])[_LABEL],
    )
