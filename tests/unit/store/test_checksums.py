"""Contents checked in one chain are found intact exactly if each of them is."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bendybus.store.checksum import encoded_fields, is_intact, sealed, seed_with_fields
from bendybus.store.checksums import are_intact, seeds_of, seeds_with_fields

seeds = st.integers(0, (1 << 32) - 1)
several = st.lists(st.tuples(st.binary(max_size=40), seeds), min_size=1, max_size=8)


def chained(contents: tuple[bytes, ...], numbers: list[int]) -> bool:
    sizes = [len(content) for content in contents]
    starts = np.cumsum([0, *sizes[:-1]])
    return are_intact(b"".join(contents), starts, np.array(numbers, np.uint32))


@given(several)
def test_what_was_sealed_is_intact(pairs: list[tuple[bytes, int]]) -> None:
    numbers = [seed for _, seed in pairs]
    assert chained(sealed([content for content, _ in pairs], numbers), numbers)


@given(several, st.data())
def test_one_changed_byte_anywhere_is_noticed(
    pairs: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    numbers = [seed for _, seed in pairs]
    contents = list(sealed([content for content, _ in pairs], numbers))
    at = data.draw(st.integers(0, len(contents) - 1))
    changed = bytearray(contents[at])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    contents[at] = bytes(changed)
    assert not is_intact(contents[at], numbers[at])
    assert not chained(tuple(contents), numbers)


@given(several, st.data())
def test_a_content_under_the_seed_of_another_is_noticed(
    pairs: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    numbers = [seed for _, seed in pairs]
    contents = sealed([content for content, _ in pairs], numbers)
    at = data.draw(st.integers(0, len(numbers) - 1))
    numbers[at] ^= data.draw(st.integers(1, (1 << 32) - 1))
    assert not chained(contents, numbers)


def test_a_content_without_a_whole_checksum_is_noticed() -> None:
    assert not chained((b"abc",), [0])
    assert not chained((*sealed([b"a"], [1]), b""), [1, 2])


def test_nothing_is_intact_if_it_is_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    assert are_intact(b"", nothing, np.zeros(0, np.uint32))
    assert not are_intact(b"x", nothing, np.zeros(0, np.uint32))


@given(st.integers(0, (1 << 63) - 1), st.integers(0, 1 << 50))
def test_seeds_are_those_of_single_contents(row: int, enqueued_at: int) -> None:
    both = row ^ enqueued_at
    [seed] = seeds_of(np.array([row]), np.array([enqueued_at]))
    assert seed == (both ^ both >> 32) & 0xFFFFFFFF


texts = st.one_of(st.none(), st.text(max_size=6))


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5), st.data())
def test_fields_are_covered_as_for_single_contents(
    fields: list[tuple[str | None, str | None]], data: st.DataObject
) -> None:
    places = st.tuples(st.integers(-1, len(fields) - 1), seeds)
    rows = data.draw(st.lists(places, min_size=1, max_size=10))
    covered = seeds_with_fields(
        np.array([seed for _, seed in rows], np.uint32),
        [encoded_fields(*each) for each in fields],
        np.array([at for at, _ in rows]),
    )
    assert covered.tolist() == [
        seed if at < 0 else seed_with_fields(seed, *fields[at]) for at, seed in rows
    ]
