"""`bendybus:redrive-messages`: dead letters are tried again, as `management_selecting` says."""

from typing import Any, Final
from uuid import UUID, uuid4

from bendybus.amqp.values import Int
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.redrive import RedriveWish, redrive
from bendybus.broker.redrive_route import MaySend
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.given_edit import GivenEdit
from bendybus.model.rule_actions import writable_name
from bendybus.model.selection import edit_of
from bendybus.server.management_selecting import flag, part_done, selection, stretch
from bendybus.server.request_body import Response, sequences, succeeded, text

_EDIT_FIELDS: Final = frozenset({"system", "properties", "removed", "body"})
# What an application property may be: no maps, no lists.
_SIMPLE: Final = (bool, int, float, str, bytes, UUID, type(None))


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
    edits = _edits(body)
    if edit is not None and edits is not None:
        raise ArgumentInvalid("Give one edit for all messages, or edits for each, not both.")
    wish = RedriveWish(
        stretch(body),
        selection(body),
        None if edit is None else edit_of(edit, uuid4),
        edits,
        to,
        is_to_source=is_to_source,
        is_dry_run=flag(body, "dry-run"),
    )
    done = await redrive(sub_queue, wish, catalog, clock, may_send)
    answer = part_done(done.moved, done.looked_at, done.locked, done.next_sequence)
    return succeeded(), answer | {"refused": Int(done.refused), "refusal": done.why}


def _edits(body: dict[str, Any]) -> dict[int, GivenEdit] | None:
    """Return the edits of the messages that `sequence-numbers` names, in the same order."""
    given = body.get("edits")
    if given is None:
        return None
    numbers = sequences(body)
    if not isinstance(given, list) or len(given) != len(numbers):
        raise ArgumentInvalid("edits must be a list with a map for each of sequence-numbers.")
    return {number: _edit(each) for number, each in zip(numbers, given, strict=True)}


def _edit(given: object) -> GivenEdit:
    if not isinstance(given, dict) or not given.keys() <= _EDIT_FIELDS:
        raise ArgumentInvalid(f"An edit is a map of {', '.join(sorted(_EDIT_FIELDS))}.")
    system, user = given.get("system", {}), given.get("properties", {})
    removed, content = given.get("removed", []), given.get("body")
    if not isinstance(system, dict) or not all(
        isinstance(name, str) and isinstance(value, str | None) for name, value in system.items()
    ):
        raise ArgumentInvalid("system of an edit must be a map of strings.")
    if not isinstance(user, dict) or not all(
        isinstance(name, str) and isinstance(value, _SIMPLE) for name, value in user.items()
    ):
        raise ArgumentInvalid("properties of an edit must be a map of names to simple values.")
    if not isinstance(removed, list) or not all(isinstance(name, str) for name in removed):
        raise ArgumentInvalid("removed of an edit must be a list of names.")
    if not isinstance(content, bytes | None):
        raise ArgumentInvalid("body of an edit must be binary.")
    names = {writable_name(name): value for name, value in system.items()}
    return GivenEdit(names, user, tuple(removed), content)
