"""`bendybus:redrive-messages`: dead letters are tried again, as `management_selecting` says."""

from typing import Any
from uuid import uuid4

from bendybus.amqp.values import Int
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.redrive import RedriveWish, redrive
from bendybus.broker.redrive_route import MaySend
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.selection import edit_of
from bendybus.server.management_selecting import flag, part_done, selection, stretch
from bendybus.server.request_body import Response, succeeded, text


async def redrive_messages(
    sub_queue: ServedSubQueue,
    catalog: Catalog,
    clock: Clock,
    may_send: MaySend,
    body: dict[str, Any],
) -> Response:
    """Move dead letters back to their entity, or to another."""
    edit = text(body, "edit")
    to = text(body, "to")
    is_to_source = flag(body, "to-source")
    if to is not None and is_to_source:
        raise ArgumentInvalid("A message goes to one place: give to or to-source, not both.")
    wish = RedriveWish(
        stretch(body),
        selection(body),
        None if edit is None else edit_of(edit, uuid4),
        to,
        is_to_source=is_to_source,
        is_dry_run=flag(body, "dry-run"),
    )
    done = await redrive(sub_queue, wish, catalog, clock, may_send)
    answer = part_done(done.moved, done.looked_at, done.locked, done.next_sequence)
    return succeeded(), answer | {"refused": Int(done.refused), "refusal": done.why}
