"""What can be asked for beside reading and writing: one row each, done in the broker's loop."""

from collections.abc import Mapping
from typing import Final

from bendybus.flight.asked import Asked, KnownAction, Told
from bendybus.flight.body import ADDRESS_FIELDS
from bendybus.flight.reader_actions import READER_ACTIONS
from bendybus.flight.writer_actions import WRITER_ACTIONS


async def _describe(asked: Asked) -> Told:
    return await asked.desk.describe(asked.call, asked.body.address())


ACTIONS: Final[Mapping[str, KnownAction]] = {
    "describe": KnownAction(
        "What an entity is like, and how far each of its fragments goes now.",
        ADDRESS_FIELDS,
        _describe,
    ),
    **READER_ACTIONS,
    **WRITER_ACTIONS,
}
