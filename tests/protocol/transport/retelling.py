"""Events as plain values, so that what two engines tell can be compared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bendybus.amqp.events import DispositionReceived, Event
from bendybus.amqp.session import AmqpLink, AmqpSession, OutgoingDelivery


def retell(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return events without the objects of their engine.

    Dispositions are told delivery by delivery: how many share an event depends on how many came
    in one read.
    """
    told: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, DispositionReceived):
            told += [
                ("DispositionReceived", _plain(one), _plain(event.state), event.settled)
                for one in event.deliveries
            ]
        else:
            values = [_plain(getattr(event, field.name)) for field in fields(event)]
            told.append((type(event).__name__, *values))
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, AmqpLink):
        return (value.name, value.role.name, value.credit)
    if isinstance(value, AmqpSession):
        return (value.channel, value.window.next_incoming_id)
    if isinstance(value, OutgoingDelivery):
        return (value.delivery_id, value.tag, value.parcel, value.link.name)
    return repr(value) if isinstance(value, float) else value
