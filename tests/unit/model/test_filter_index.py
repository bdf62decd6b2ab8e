"""The index finds exactly the rules that would match one by one."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.filter_index import FilterIndex
from bendybus.model.filters import compile_filter
from bendybus.model.rule import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from tests.unit.model.rule_messages import Seen, fixed_id

pytestmark = pytest.mark.spec("R4")

Target = TypeVar("Target", bound=Hashable)

# Few values, so that most messages match something; True and 1 are equal to Python alone.
texts = st.sampled_from(["", "a", "b"])
values = st.sampled_from(["a", "b", 1, 1.0, 2, True, False, b"a"])
user_properties = st.dictionaries(st.sampled_from(["x", "X", "y"]), values, max_size=2)
correlations = st.builds(
    CorrelationFilter,
    label=texts,
    to=st.none() | texts,
    properties=st.dictionaries(st.sampled_from(["X", "y"]), values),
) | st.builds(
    CorrelationFilter,
    properties=st.dictionaries(st.sampled_from(["x", "Y"]), values, min_size=1),
)
filters = st.one_of(
    correlations,
    st.sampled_from([TrueFilter(), FalseFilter(), SqlFilter("x = 1"), SqlFilter("y <> 'a'")]),
)
messages = st.builds(
    Seen,
    user_properties,
    st.fixed_dictionaries({"Label": st.none() | texts, "To": st.none() | texts}),
)


def indexed(described: Mapping[Target, Filter]) -> FilterIndex[Target]:
    index = FilterIndex[Target](new_id=fixed_id)
    for target, each in described.items():
        index.add(target, each)
    return index


@given(st.lists(filters, max_size=20), messages)
def test_the_index_agrees_with_each_filter_alone(described: list[Filter], view: Seen) -> None:
    index = indexed(dict(enumerate(described)))
    alone = [
        number
        for number, each in enumerate(described)
        if compile_filter(each, new_id=fixed_id).matches(view)
    ]
    found = index.matching(view)
    assert sorted(found.matched) == alone
    assert found.failed == []


@given(st.lists(filters, max_size=10), st.data())
def test_what_is_removed_leaves_nothing_behind(
    described: list[Filter], data: st.DataObject
) -> None:
    index = indexed(dict(enumerate(described)))
    view = data.draw(messages)
    expected = set(index.matching(view).matched)
    for number in data.draw(st.permutations(range(len(described)))):
        index.remove(number)
        expected.discard(number)
        assert set(index.matching(view).matched) == expected
    assert vars(index) == vars(indexed({}))


def test_a_filter_that_fails_is_named_and_does_not_stop_the_others() -> None:
    described: dict[str, Filter] = {
        "before": SqlFilter("a = 1"),
        "broken": SqlFilter("sys.NoSuch = 1"),
        "after": SqlFilter("a > 0"),
    }
    found = indexed(described).matching(Seen({"a": 1}))
    assert found.matched == ["before", "after"]
    [(target, failure)] = found.failed
    assert target == "broken"
    assert str(failure) == "there is no system property NoSuch"


def test_a_text_without_meaning_is_refused_and_changes_nothing() -> None:
    index = FilterIndex[str](new_id=fixed_id)
    with pytest.raises(ArgumentInvalid):
        index.add("rule", SqlFilter("a ="))
    index.add("rule", SqlFilter("a = 1"))
    assert index.matching(Seen({"a": 1})).matched == ["rule"]


def test_a_target_has_one_filter() -> None:
    index = indexed({"rule": TrueFilter()})
    with pytest.raises(AssertionError, match="one filter"):
        index.add("rule", FalseFilter())


class CountingView(Seen):
    """Counts how often the message is read."""

    reads = 0

    def system(self, name: str) -> object:
        self.reads += 1
        return super().system(name)


def test_a_thousand_correlation_filters_read_the_message_as_often_as_one() -> None:
    view = CountingView(system={"Label": "label 7"})
    index = indexed({n: CorrelationFilter(label=f"label {n}") for n in range(1000)})
    assert index.matching(view).matched == [7]
    assert view.reads == 1
