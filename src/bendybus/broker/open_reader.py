"""open reader: begin to reserve messages under a name, or go on where another stopped."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.receive import check_has_messages, check_status_for_receive
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import ReaderInUse, ReaderLost
from bendybus.model.ids import Instant
from bendybus.model.operations import OpenReader, ReaderPlace
from bendybus.model.reader import (
    IDLE_AFTER_MS,
    READERS_MAX,
    check_reader_name,
    check_reader_token,
)

_TOKEN_BYTES: Final = 16


class OpenedReader(NamedTuple):
    """The token to use from now on, and the position of each fragment that is done with."""

    token: str
    committed: dict[int, int]
    # Fragments whose store is away. They are opened when they are first reserved from.
    skipped: list[int]


async def open_reader(
    sub_queue: ServedSubQueue,
    name: str,
    token: str | None,
    clock: Clock,
    *,
    skips_offline: bool = False,
) -> OpenedReader:
    """Take a reader over, or make it. Raises `ReaderInUse` if somebody else is using it.

    A token of the caller's own choice lets it come back at once; without one, a new one is made.
    """
    check_has_messages(sub_queue.queue)
    check_status_for_receive(sub_queue)
    check_reader_name(name)
    if token is not None:
        check_reader_token(token)
    sub_queue.queue.note_use()
    chosen = token or new_token()
    sources, skipped = sub_queue.reachable(skips_offline=skips_offline)
    now = clock.now()
    idle_since = Instant(now - IDLE_AFTER_MS)
    # Refused after some fragments had been given, both would have a part of the reader.
    opened_at = await _free_at(sources, name, chosen, idle_since, now)
    # The first one decides, so that of two who come at once one gets all fragments.
    first, *others = sources
    places = [await _open_in(first, name, chosen, opened_at, idle_since, now)]
    try:
        places += await asyncio.gather(
            *(_open_in(source, name, chosen, opened_at, None, now) for source in others)
        )
    except ReaderLost:
        raise ReaderInUse.named(name, 0) from None
    committed: dict[int, int] = {
        source.fragment: place.committed for source, place in zip(sources, places, strict=True)
    }
    return OpenedReader(chosen, committed, skipped)


async def open_late(
    source: Source, name: str, token: str, opened_at: Instant, clock: Clock
) -> None:
    """Open a reader in a fragment that was away when it was opened in the others.

    Raises `ReaderLost` if somebody else has opened it there since.
    """
    await _open_in(source, name, token, opened_at, None, clock.now())


def new_token() -> str:
    """Make a token that nobody can guess."""
    return secrets.token_hex(_TOKEN_BYTES)


async def _free_at(
    sources: Sequence[Source], name: str, token: str, idle_since: Instant, now: Instant
) -> Instant:
    """Return a time to open a reader at, later than all others. Raises `ReaderInUse`."""
    found = await asyncio.gather(*(source.store.readers([source.number]) for source in sources))
    others = [
        record
        for records in found
        for record in records
        if record.name == name and record.token != token
    ]
    active_at = max((record.active_at for record in others), default=0)
    if active_at > idle_since:
        raise ReaderInUse.named(name, max(now - active_at, 0) // 1000)
    # Also if the clock went back.
    return Instant(max([now, *(record.opened_at + 1 for record in others)]))


async def _open_in(
    source: Source,
    name: str,
    token: str,
    opened_at: Instant,
    idle_since: Instant | None,
    now: Instant,
) -> ReaderPlace:
    operation = OpenReader(source.number, name, token, opened_at, idle_since, READERS_MAX)
    [place] = await source.store.apply([operation], now=now)
    assert isinstance(place, ReaderPlace), "as the operation is answered"
    return place
