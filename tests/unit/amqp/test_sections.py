"""The sections of a message, found by offset (AMQP 1.0 §3.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.encode import encode_value
from bendybus.amqp.sections import (
    SECTIONS_MAX,
    Section,
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
    list_fields,
)
from bendybus.amqp.values import DecodeError

VALUES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300),
    st.lists(st.text(max_size=5), max_size=5),
    st.none(),
    st.booleans(),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
)


@pytest.mark.amqp("3.2")
@given(st.lists(st.tuples(st.sampled_from([0x75, 0x76]), VALUES), max_size=8))
def test_sections_are_found_where_they_were_put(parts: list[tuple[int, object]]) -> None:
    encoded = [encode_section(SectionCode(code), value) for code, value in parts]
    payload = b"".join(encoded)

    sections = find_sections(payload)

    assert [each.code for each in sections] == [code for code, _ in parts]
    assert [payload[each.start : each.end] for each in sections] == encoded
    assert [decode_section(payload, each) for each in sections] == [value for _, value in parts]


@pytest.mark.amqp("3.2")
@given(st.binary(max_size=64))
def test_any_bytes_are_sections_or_a_decode_error(payload: bytes) -> None:
    try:
        sections = find_sections(payload)
    except DecodeError:
        return
    assert sum(each.end - each.start for each in sections) == len(payload)


@pytest.mark.amqp("3.2")
@given(st.binary(max_size=24), st.sampled_from(list(SectionCode)))
def test_any_value_of_a_section_can_be_asked_for_or_refused(value: bytes, code: int) -> None:
    payload = b"\x00\x53" + bytes((code,)) + value
    for read in (decode_section, decode_map, decode_list, list_fields):
        try:
            for section in find_sections(payload):
                read(payload, section)
        except DecodeError:
            continue


@pytest.mark.amqp("1.3")
@pytest.mark.parametrize(
    "descriptor",
    [
        pytest.param(b"\x00\x53\x75", id="small ulong"),
        pytest.param(b"\x00\x80" + (0x75).to_bytes(8, "big"), id="ulong"),
    ],
)
def test_a_descriptor_may_be_short_or_long(descriptor: bytes) -> None:
    [section] = find_sections(descriptor + encode_value(b"body"))

    assert section.code == SectionCode.DATA


@pytest.mark.amqp("3.2")
@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"\x01", "starts with 0x1"),
        (b"\x00\x53\x20\x45", "0x20 is not a message section"),
        (b"\x00\x53\x75\xa0\x05abc", "ends within a section"),
        (b"\x00\x53", "ends within a section"),
        (b"\x00\x53\x75", "ends within a section"),
        (encode_properties([]) * 2, "PROPERTIES comes twice"),
        (encode_section(SectionCode.AMQP_VALUE, 1) * 2, "AMQP_VALUE comes twice"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(payload: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        find_sections(payload)


def test_a_message_has_a_bounded_number_of_sections() -> None:
    one = encode_section(SectionCode.DATA, b"")

    assert len(find_sections(one * SECTIONS_MAX)) == SECTIONS_MAX
    with pytest.raises(DecodeError, match="more than"):
        find_sections(one * (SECTIONS_MAX + 1))


@pytest.mark.amqp("3.2.4")
def test_properties_are_encoded_with_all_thirteen_fields() -> None:
    payload = encode_properties(["id"])
    [section] = find_sections(payload)

    assert decode_list(payload, section) == ["id", *[None] * 12]
    assert list_fields(payload, section)[0] == 13


@pytest.mark.parametrize(
    ("value", "count"),
    [(b"\x45", 0), (b"\xc0\x03\x02\x40\x40", 2), (b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40", 1)],
    ids=["list0", "list8", "list32"],
)
def test_the_fields_of_a_list_are_counted_in_every_encoding(value: bytes, count: int) -> None:
    payload = b"\x00\x53\x73" + value
    [section] = find_sections(payload)

    assert list_fields(payload, section)[0] == count


def test_null_stands_for_an_empty_map_and_for_nothing_else() -> None:
    payload = b"\x00\x53\x72\x40"
    [section] = find_sections(payload)

    assert decode_map(payload, section) == {}
    with pytest.raises(DecodeError, match="not a list"):
        decode_list(payload, section)


def test_a_value_that_does_not_fill_its_section_is_refused() -> None:
    payload = b"\x00\x53\x75\xa0\x01x"

    with pytest.raises(DecodeError, match="wrong size"):
        decode_section(payload, Section(0x75, 0, 3, 7))
