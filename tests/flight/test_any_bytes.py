"""Whatever bytes a call carries, it is answered or refused as it should be, and all goes on."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bendybus.columns.schema import COLUMNS
from bendybus.flight.actions import ACTIONS
from bendybus.flight.body import read_body
from bendybus.flight.ticket import TICKET_FIELDS, read_ticket
from bendybus.model.errors import ArgumentInvalid

FIELDS = sorted({*TICKET_FIELDS, *(field for each in ACTIONS.values() for field in each.fields)})
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["fragment", "from", "until", "after", "0", "1", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_ticket_or_refused_as_none(content: bytes) -> None:
    _read_or_refused(content)


@given(OBJECTS)
def test_any_object_is_a_ticket_or_refused_as_none(value: dict[str, Any]) -> None:
    _read_or_refused(json.dumps({"entity": "orders", **value}).encode())


@given(OBJECTS)
def test_every_kind_of_field_takes_any_value_or_refuses_it(value: dict[str, Any]) -> None:
    body = read_body(json.dumps(value).encode(), FIELDS, "test")
    for name in value:
        for ask in (
            body.text,
            body.number,
            body.flag,
            body.by_fragment,
            lambda name: body.texts(name, 2),
            lambda name: body.values(name, 2),
            lambda name: body.numbers_by_fragment(name, 2),
            lambda name: body.word(name, {"a": 1}),
            lambda name: list(body.objects(name, ("x",), 2)),
        ):
            with suppress(ArgumentInvalid):
                ask(name)


def _read_or_refused(content: bytes) -> None:
    with suppress(ArgumentInvalid):
        ticket = read_ticket(content)
        assert set(ticket.columns) <= set(COLUMNS)
        ticket.address.resource.encode()
