"""Sharing out what there is to read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_servicebus.planning import Stretch, ended, limited, messages_within, pack, stretches

FRAGMENTS = st.integers(0, 15)
OFFSETS = st.dictionaries(FRAGMENTS, st.integers(0, 60), max_size=16)


@pytest.mark.spec("R9.1")
@given(parts=st.lists(st.builds(Stretch, FRAGMENTS, st.just(0), st.just(1), st.integers(0, 1000))))
@pytest.mark.parametrize("tasks_max", [1, 2, 16])
def test_every_stretch_is_in_exactly_one_task(parts: list[Stretch], tasks_max: int) -> None:
    tasks = pack(parts, tasks_max)

    assert len(tasks) == min(tasks_max, len(parts))
    assert all(tasks)
    assert sorted(map(repr, (part for task in tasks for part in task))) == sorted(map(repr, parts))


def test_a_large_fragment_has_a_task_to_itself() -> None:
    parts = [Stretch(fragment, 0, 1, 1000 if fragment == 3 else 10) for fragment in range(4)]
    assert pack(parts, 2) == [[parts[3]], parts[:3]]


def test_empty_fragments_are_shared_out_as_well() -> None:
    parts = [Stretch(fragment, 0, 1, 0) for fragment in range(4)]
    assert [len(task) for task in pack(parts, 2)] == [2, 2]


@given(start=OFFSETS, end=OFFSETS)
def test_stretches_are_what_lies_between_two_offsets(
    start: dict[int, int], end: dict[int, int]
) -> None:
    found = {(part.fragment, at) for part in stretches(start, end, {}) for at in _numbers(part)}
    assert found == {
        (fragment, at) for fragment in end for at in range(start.get(fragment, 0), end[fragment])
    }


def test_a_stretch_weighs_what_is_known_of_it() -> None:
    assert [part.weight for part in stretches({}, {0: 5, 1: 5}, {1: 2})] == [5, 2]


@given(start=OFFSETS, end=OFFSETS, messages_max=st.integers(1, 1000))
def test_a_limit_is_kept_and_reaches_the_end_at_last(
    start: dict[int, int], end: dict[int, int], messages_max: int
) -> None:
    at = start
    while at != (following := limited(at, end, messages_max)):
        advance = {each: following[each] - at.get(each, 0) for each in following}
        assert all(step >= 0 for step in advance.values())
        assert 0 <= sum(advance.values()) <= messages_max
        at = following
    assert at == {each: max(end[each], start.get(each, 0)) for each in end}


def test_a_limit_is_shared_in_proportion() -> None:
    assert limited({0: 0, 1: 100}, {0: 300, 1: 200}, 100) == {0: 75, 1: 125}


def _numbers(part: Stretch) -> range:
    return range(part.start, part.end)


@pytest.mark.parametrize(
    ("messages_max", "bytes_max", "messages", "size", "within"),
    [
        (100, 1000, 0, 0, 100),
        (100, 1000, 10, 1000, 10),
        (100, 999, 10, 1000, 9),
        (5, 1000, 10, 1000, 5),
        (100, 1000, 1, 250_000, 1),
    ],
)
def test_a_batch_has_as_many_of_average_size_as_both_limits_let_through(
    messages_max: int, bytes_max: int, messages: int, size: int, within: int
) -> None:
    assert messages_within(messages_max, bytes_max, messages=messages, size=size) == within


def test_a_fragment_ends_at_its_head_or_at_the_end_that_was_given() -> None:
    assert ended({0: 10, 1: 10, 2: 10}, {0: 5, 1: 20, 7: 1}) == {0: 5, 1: 10, 2: 10}
    assert ended({0: 10}, None) == {0: 10}
