"""What readers ask for: to begin, to reserve, to be done with messages or to give them back."""

from typing import Any, Final

from bendybus.broker.close_reader import close_reader
from bendybus.broker.commit_reserved import commit_reserved
from bendybus.broker.give_back import give_back
from bendybus.broker.open_reader import open_reader
from bendybus.broker.readers import Reader, readers
from bendybus.broker.reserve import (
    WITHOUT_BOUND,
    ReservedPart,
    ReserveWish,
    reserve,
    reserve_chosen,
)
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.flight.asked import Asked, KnownAction, Told
from bendybus.flight.body import ADDRESS_FIELDS
from bendybus.model.actions import Action
from bendybus.model.errors import ArgumentInvalid

# So many messages can be named at once.
CHOSEN_MAX: Final = 10_000
_READER_FIELDS: Final = (*ADDRESS_FIELDS, "reader", "token")


async def _open(asked: Asked) -> Told:
    body = asked.body
    opened = await open_reader(
        await _reserved_from(asked),
        body.text("reader"),
        body.optional_text("token"),
        asked.clock,
        skips_offline=body.flag("skip_offline"),
    )
    return {
        "token": opened.token,
        "committed": _by_fragment(opened.committed),
        "skipped": opened.skipped,
    }


async def _reserve(asked: Asked) -> Told:
    body = asked.body
    sub_queue = await _reserved_from(asked)
    reader, token = body.text("reader"), body.text("token")
    if body.has("sequences"):
        if any(map(body.has, ("start", "before", "messages_max", "bytes_max", "skip_offline"))):
            raise ArgumentInvalid("With 'sequences' nothing else is chosen by; leave it out.")
        chosen = body.numbers_by_fragment("sequences", CHOSEN_MAX)
        return _part(await reserve_chosen(sub_queue, reader, token, chosen, asked.clock))
    wish = ReserveWish(
        reader=reader,
        token=token,
        after=body.by_fragment("start"),
        before=body.by_fragment("before"),
        messages_max=body.number("messages_max", 1) if body.has("messages_max") else WITHOUT_BOUND,
        bytes_max=body.number("bytes_max", 1) if body.has("bytes_max") else WITHOUT_BOUND,
        skips_offline=body.flag("skip_offline"),
    )
    return _part(await reserve(sub_queue, wish, asked.clock))


async def _commit(asked: Asked) -> Told:
    body = asked.body
    sub_queue = await _reserved_from(asked)
    until = body.by_fragment("until")
    await commit_reserved(sub_queue, body.text("reader"), body.text("token"), until, asked.clock)
    return {}


async def _close(asked: Asked) -> Told:
    body = asked.body
    sub_queue = await _reserved_from(asked)
    await close_reader(sub_queue, body.text("reader"), body.text("token"), asked.clock)
    return {}


async def _give_back(asked: Asked) -> Told:
    """Give back what a reader holds; without its token that takes the right to manage."""
    body = asked.body
    token = body.optional_text("token")
    action = Action.RELEASE_READER if token is None else Action.RESERVE_MESSAGES
    sub_queue = await asked.desk.readable(asked.call, body.address(), action)
    given = await give_back(
        sub_queue,
        body.text("reader"),
        token,
        asked.clock,
        skips_offline=body.flag("skip_offline"),
    )
    return {"messages": given.messages, "skipped": given.skipped}


async def _readers(asked: Asked) -> Told:
    sub_queue = await asked.desk.readable(asked.call, asked.body.address(), Action.RESERVE_MESSAGES)
    found = await readers(sub_queue, asked.clock)
    return {"readers": [_told(each) for each in found.readers], "skipped": found.skipped}


async def _reserved_from(asked: Asked) -> ServedSubQueue:
    address = asked.body.address()
    return await asked.desk.readable(asked.call, address, Action.RESERVE_MESSAGES)


def _part(part: ReservedPart) -> Told:
    return {
        "end": _by_fragment(part.end),
        "lag": _by_fragment(part.lag),
        "messages": part.messages,
        "bytes": part.bytes,
        "skipped": part.skipped,
    }


def _told(reader: Reader) -> dict[str, Any]:
    return {
        **reader._asdict(),
        "fragments": {str(fragment): each._asdict() for fragment, each in reader.fragments.items()},
    }


def _by_fragment(numbers: dict[int, int]) -> dict[str, int]:
    """Write numbers by fragment, always in the same order: offsets are compared as texts."""
    return {str(fragment): numbers[fragment] for fragment in sorted(numbers)}


READER_ACTIONS: Final = {
    "open_reader": KnownAction(
        "Begin to reserve messages under a name, or take over what was reserved under it.",
        (*_READER_FIELDS, "skip_offline"),
        _open,
    ),
    "reserve": KnownAction(
        "Return what is reserved behind some positions, and reserve more up to the bounds.",
        (
            *_READER_FIELDS,
            *("start", "before", "messages_max", "bytes_max", "sequences", "skip_offline"),
        ),
        _reserve,
        is_long=True,
    ),
    "commit": KnownAction(
        "Complete the messages that a reader has reserved, up to a position.",
        (*_READER_FIELDS, "until"),
        _commit,
        is_long=True,
    ),
    "close_reader": KnownAction(
        "Say that a reader is in use no longer; what it has reserved stays so.",
        _READER_FIELDS,
        _close,
    ),
    "give_back": KnownAction(
        "Free all that a reader has reserved, and forget the reader.",
        (*_READER_FIELDS, "skip_offline"),
        _give_back,
        is_long=True,
    ),
    "readers": KnownAction("Who reserves messages, and how much.", ADDRESS_FIELDS, _readers),
}
