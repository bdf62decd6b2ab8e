"""The hot path in: whole transfers and dispositions read by offset, not by the general decoder.

A plain transfer is one that is a whole delivery without state on an attached link; a plain
disposition one by a receiver with a plain outcome. With usual clients that is nearly every frame.
What is not plain is left to the general path, which reads it again from its start; so this file
may refuse anything, but must never take a frame that the general path would read otherwise.

        +0    +4     +6       +8           +12 +13    +14
        size  02 00  channel  00 53 14 c0  n   count  handle delivery-id tag | form   payload
        size  02 00  channel  00 53 15 c0  n   count  role first last        | form

Fields behind the bar hardly ever change on a link, so they are not read but looked up: their bytes
are the key to what they mean.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from bendybus.amqp.composite import compose
from bendybus.amqp.decode import decode_value
from bendybus.amqp.events import Event, TransferReceived, TransferRunReceived
from bendybus.amqp.outcomes import Accepted, Modified, Released
from bendybus.amqp.serial import SERIAL_MASK
from bendybus.amqp.session import AmqpSession
from bendybus.amqp.session_input import settle_range
from bendybus.amqp.values import DecodeError, Uint

FORM_COUNT_MAX: Final = 64
FORM_SIZE_MAX: Final = 24
"""Bounds on what a peer can make us remember; past them its frames are merely slower."""

_TransferForm: TypeAlias = tuple[int, bool, int]
"""message-format, settled, count of all fields."""
_DispositionForm: TypeAlias = tuple[bool, object, int]
"""settled, state, count of all fields."""

_HEAD: Final = struct.Struct(">IHHIBB").unpack_from
_UINT: Final = struct.Struct(">I").unpack_from
_HEAD_AND_FIXED_FIELDS_SIZE: Final = 26
"""No field in front of the form is read past this, so a frame this long needs no more checks."""
_PLAIN_LAYOUT: Final = 0x0200
_TRANSFER_LIST8: Final = 0x005314C0
_DISPOSITION_LIST8: Final = 0x005315C0
_TRUE: Final = 0x41
_NULL: Final = 0x40
_UINT_ZERO: Final = 0x43
_UINT_SMALL: Final = 0x52
_UINT_FULL: Final = 0x70
_BINARY_SHORT: Final = 0xA0


class PlainFrames:
    """Reader of plain frames for one connection, with the forms that its peer uses."""

    __slots__ = ("_disposition_forms", "_transfer_forms")

    def __init__(self) -> None:
        self._transfer_forms: dict[bytes, _TransferForm] = {}
        self._disposition_forms: dict[bytes, _DispositionForm] = {}

    def read(  # noqa: C901, PLR0911, PLR0912, PLR0915  see below
        self,
        buf: bytes,
        pos: int,
        frame_size_max: int,
        sessions: dict[int, AmqpSession],
        events: list[Event],
    ) -> int:
        """Take plain frames from `pos` on; return the position of the first that is not plain.

        One long function because calls are what costs here: it reads about 500,000 transfers a
        second where a method per field reads 150,000.
        """
        end = len(buf)
        transfer_forms = self._transfer_forms
        run: TransferRunReceived | None = None
        form_of_run: _TransferForm | None = None
        while end - pos >= _HEAD_AND_FIXED_FIELDS_SIZE:
            size, layout, channel, shape, list_size, count = _HEAD(buf, pos)
            frame_end = pos + size
            list_end = pos + 13 + list_size
            session = sessions.get(channel)
            if (
                layout != _PLAIN_LAYOUT
                or session is None
                or size > frame_size_max
                or frame_end > end
                or list_end > frame_end
            ):
                return pos
            if shape == _DISPOSITION_LIST8:
                if not self._read_disposition(
                    buf, pos, list_end, frame_end, count, session, events
                ):
                    return pos
                run = None
                pos = frame_end
                continue
            if shape != _TRANSFER_LIST8:
                return pos

            code = buf[pos + 14]
            if code == _UINT_SMALL:
                handle = buf[pos + 15]
                at = pos + 16
            elif code == _UINT_ZERO:
                handle = 0
                at = pos + 15
            elif code == _UINT_FULL:
                (handle,) = _UINT(buf, pos + 15)
                at = pos + 19
            else:
                return pos
            link = session.ready_receivers.get(handle)
            if link is None:
                return pos

            code = buf[at]
            if code == _UINT_FULL:
                (delivery_id,) = _UINT(buf, at + 1)
                at += 5
            elif code == _UINT_SMALL:
                delivery_id = buf[at + 1]
                at += 2
            elif code == _UINT_ZERO:
                delivery_id = 0
                at += 1
            else:
                return pos

            if buf[at] != _BINARY_SHORT:
                return pos
            tag_start = at + 2
            at = tag_start + buf[at + 1]
            if at > list_end:
                return pos
            form = transfer_forms.get(buf[at:list_end])
            if form is None:
                form = self._learn_transfer_form(buf[at:list_end], count)
            if form is None or form[2] != count or frame_end - list_end > link.message_size_max:
                return pos

            window = session.window
            window.next_incoming_id = next_id = (window.next_incoming_id + 1) & SERIAL_MASK  # type: ignore[operator]  # an int since Begin
            if next_id == window.top_up_id:
                window.top_up()
            link.delivery_count = (link.delivery_count + 1) & SERIAL_MASK
            payload = buf[list_end:frame_end]
            if run is not None and run.link is link and form is form_of_run:
                run.delivery_ids.append(delivery_id)
                run.payloads.append(payload)
            elif link.takes_runs:
                form_of_run = form
                run = TransferRunReceived(link, form[0], form[1], [delivery_id], [payload])
                events.append(run)
            else:
                run = None
                tag = buf[tag_start:at]
                events.append(
                    TransferReceived(link, delivery_id, tag, form[0], form[1], None, payload)
                )
            pos = frame_end
        return pos

    def _read_disposition(
        self,
        buf: bytes,
        pos: int,
        list_end: int,
        frame_end: int,
        count: int,
        session: AmqpSession,
        events: list[Event],
    ) -> bool:
        """Take a disposition of the receiving side; False if it is not plain."""
        if buf[pos + 14] != _TRUE or list_end != frame_end:
            return False
        at = pos + 15
        code = buf[at]
        if code == _UINT_FULL:
            (first,) = _UINT(buf, at + 1)
            at += 5
        elif code == _UINT_SMALL:
            first = buf[at + 1]
            at += 2
        else:
            return False
        code = buf[at]
        if code == _UINT_FULL:
            (last,) = _UINT(buf, at + 1)
            at += 5
        elif code == _UINT_SMALL:
            last = buf[at + 1]
            at += 2
        elif code == _NULL:
            last = first
            at += 1
        else:
            return False
        if at > list_end:
            return False
        form = self._disposition_forms.get(buf[at:list_end])
        if form is None:
            form = self._learn_disposition_form(buf[at:list_end], count)
        if form is None or form[2] != count:
            return False
        is_found = settle_range(session, first, last, state=form[1], settled=form[0], events=events)
        # A range that holds nothing is counted by the general reader.
        return is_found or first == last

    def _learn_transfer_form(self, fields: bytes, count: int) -> _TransferForm | None:
        """Read message-format .. batchable; None unless that is a whole delivery without state."""
        values = _read_fields(fields, count - 3)
        if values is None or len(values) > 8:
            return None
        values += [None] * (8 - len(values))
        message_format, settled, more, mode, state, resume, aborted, batchable = values
        if not all(_is_flag(flag) for flag in (settled, more, resume, aborted, batchable)):
            return None
        is_whole = not more and not aborted and state is None and mode is None
        if not is_whole or not isinstance(message_format, Uint | None):
            return None
        form = (message_format or 0, bool(settled), count)
        if len(self._transfer_forms) < FORM_COUNT_MAX:
            self._transfer_forms[fields] = form
        return form

    def _learn_disposition_form(self, fields: bytes, count: int) -> _DispositionForm | None:
        """Read settled .. batchable; None unless the state is an outcome without anything in it."""
        values = _read_fields(fields, count - 3)
        if values is None or len(values) > 3:
            return None
        settled, state, batchable = values + [None] * (3 - len(values))
        if not (_is_flag(settled) and _is_flag(batchable)):
            return None
        try:
            outcome = compose(state)
        except DecodeError:
            return None
        if not isinstance(outcome, Accepted | Released | Modified):
            return None
        if isinstance(outcome, Modified) and outcome.message_annotations is not None:
            return None
        form = (bool(settled), outcome, count)
        if len(self._disposition_forms) < FORM_COUNT_MAX:
            self._disposition_forms[fields] = form
        return form


def _is_flag(value: object) -> bool:
    return value is None or type(value) is bool


def _read_fields(fields: bytes, count: int) -> list[object] | None:
    """Return exactly `count` values that fill `fields` exactly, or None."""
    if len(fields) > FORM_SIZE_MAX or count < 0:
        return None
    values: list[object] = []
    at = 0
    try:
        for _ in range(count):
            value, at = decode_value(fields, at)
            values.append(value)
    except DecodeError:
        return None
    return values if at == len(fields) else None
