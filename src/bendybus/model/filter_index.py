"""Which of a topic's many rules a message passes, without asking each.

Correlation filters are grouped by the properties that they compare. For a group the message is
read once and its values looked up in a dictionary, so the cost grows with the number of
different groups and of matches, not with the number of filters. SQL filters are asked one by
one. Adding and removing a rule costs nothing for the others.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar, assert_never

from bendybus.model.correlation import Compared, Key, KeyReader, compared_and_key
from bendybus.model.filters import CompiledFilter, compile_filter
from bendybus.model.message_view import MessageView
from bendybus.model.rule import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from bendybus.model.sql_expressions import NewIdentifier
from bendybus.model.sql_values import FilterFailed

Target = TypeVar("Target", bound=Hashable)


class Matches(NamedTuple, Generic[Target]):
    """Whose filters a message passes, and whose could not be evaluated. In no certain order."""

    matched: list[Target]
    failed: list[tuple[Target, FilterFailed]]


class FilterIndex(Generic[Target]):
    """The filters of many rules, each with the target that it stands for."""

    def __init__(self, *, new_id: NewIdentifier) -> None:
        self._new_id = new_id
        self._described: dict[Target, Filter] = {}
        # Dictionaries as sets that keep their order.
        self._always: dict[Target, None] = {}
        self._asked: dict[Target, CompiledFilter] = {}
        self._groups: dict[Compared, _Group[Target]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no message can match."""
        return not self._described

    @property
    def asked_count(self) -> int:
        """How many filters, or groups of them, every message is held against; at least one."""
        return max(1, len(self._asked) + len(self._groups))

    def add(self, target: Target, described: Filter) -> None:
        """Take in a filter. Raises `ArgumentInvalid`, changing nothing, if its text is wrong."""
        assert target not in self._described, "a target has one filter"
        match described:
            case TrueFilter():
                self._always[target] = None
            case FalseFilter():
                pass
            case SqlFilter():
                self._asked[target] = compile_filter(described, new_id=self._new_id)
            case CorrelationFilter():
                compared, key = compared_and_key(described)
                group = self._groups.setdefault(compared, _Group(KeyReader(compared), {}))
                group.targets.setdefault(key, {})[target] = None
            case _:
                assert_never(described)
        self._described[target] = described

    def remove(self, target: Target) -> None:
        """Forget a target that was added, and its filter."""
        described = self._described.pop(target)
        self._always.pop(target, None)
        self._asked.pop(target, None)
        if isinstance(described, CorrelationFilter):
            self._remove_correlation(target, described)

    def matching(self, view: MessageView) -> Matches[Target]:
        """Find every target whose filter the message passes."""
        matched = list(self._always)
        failed: list[tuple[Target, FilterFailed]] = []
        for reader, targets in self._groups.values():
            try:
                matched += targets.get(reader.read(view), ())
            except FilterFailed as failure:
                failed += [(target, failure) for same in targets.values() for target in same]
        for target, compiled in self._asked.items():
            try:
                if compiled.matches(view):
                    matched.append(target)
            except FilterFailed as failure:
                failed.append((target, failure))
        return Matches(matched, failed)

    def _remove_correlation(self, target: Target, described: CorrelationFilter) -> None:
        compared, key = compared_and_key(described)
        targets = self._groups[compared].targets
        del targets[key][target]
        # What is empty goes too: a group costs every message a lookup.
        if not targets[key]:
            del targets[key]
        if not targets:
            del self._groups[compared]


class _Group(NamedTuple, Generic[Target]):
    """The correlation filters that compare the same properties."""

    reader: KeyReader
    targets: dict[Key, dict[Target, None]]
