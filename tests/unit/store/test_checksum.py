"""Contents and marks are known again, and any change to them is noticed."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.message import Marks
from bendybus.store.checksum import CHECKSUM_SIZE, is_intact, sealed, seed_with_fields
from bendybus.store.marks import MarksDamaged, marks_from_text, marks_to_text

seeds = st.integers(0, (1 << 63) - 1)
texts = st.none() | st.text()
marks = st.builds(
    Marks, texts, texts, texts, st.none() | st.integers(0, (1 << 63) - 1), st.none() | st.binary()
)


@given(st.binary(), seeds)
def test_a_sealed_content_is_intact_and_four_bytes_longer(content: bytes, seed: int) -> None:
    [stored] = sealed([content], [seed])
    assert is_intact(stored, seed)
    assert stored[:-CHECKSUM_SIZE] == content


@given(st.binary(max_size=2000), seeds)
def test_contents_are_sealed_as_by_every_version_before(content: bytes, seed: int) -> None:
    [stored] = sealed([content], [seed])
    assert stored[-CHECKSUM_SIZE:] == zlib.crc32(content, seed).to_bytes(CHECKSUM_SIZE, "little")


@given(st.binary(), seeds, st.data())
def test_any_changed_bit_is_noticed(content: bytes, seed: int, data: st.DataObject) -> None:
    [stored] = sealed([content], [seed])
    changed = bytearray(stored)
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not is_intact(bytes(changed), seed)


@given(st.binary(), seeds, seeds)
def test_a_content_in_the_wrong_place_is_noticed(content: bytes, seed: int, other: int) -> None:
    [stored] = sealed([content], [seed])
    assert is_intact(stored, other) == (seed & 0xFFFFFFFF == other & 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, "a", None), (0, None, "a")),
        ((0, "1", None), (0, 1, None)),
        ((1, "", ""), (1, "", None)),
    ],
)
def test_fields_that_changed_places_or_kind_are_noticed(
    one: tuple[object, ...], other: tuple[object, ...]
) -> None:
    assert seed_with_fields(7, *one) != seed_with_fields(7, *other)


@given(marks)
def test_marks_come_back_as_they_were(value: Marks) -> None:
    assert marks_from_text(marks_to_text(value)) == value


@given(marks, st.data())
def test_any_changed_character_of_marks_is_noticed(value: Marks, data: st.DataObject) -> None:
    text = marks_to_text(value)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(exclude_characters=text[at]))
    with pytest.raises(MarksDamaged):
        marks_from_text(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("text", ["", "{}", "1234567", "00000000{}"])
def test_what_never_was_marks_is_noticed(text: str) -> None:
    with pytest.raises(MarksDamaged):
        marks_from_text(text)
