"""Which of a topic's many rules a message passes, without asking each.

Correlation filters are grouped by the properties that they compare. For a group the message is
read once and its values looked up in a dictionary, so the cost grows with the number of
different groups and of matches, not with the number of filters. SQL filters are asked one by
one. An index is never changed: a topic whose rules change gets a new one.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from bendybus.model.correlation import Compared, Key, KeyReader, compared_and_key
from bendybus.model.filters import CompiledFilter, compile_filter
from bendybus.model.message_view import MessageView
from bendybus.model.rule import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from bendybus.model.sql_expressions import NewIdentifier
from bendybus.model.sql_values import FilterFailed

Target = TypeVar("Target")


class Matches(NamedTuple, Generic[Target]):
    """Whose filters a message passes, and whose could not be evaluated. In no certain order."""

    matched: list[Target]
    failed: list[tuple[Target, FilterFailed]]


class FilterIndex(Generic[Target]):
    """The filters of many rules, each with the target that it stands for."""

    def __init__(self, filters: Iterable[tuple[Target, Filter]], *, new_id: NewIdentifier) -> None:
        """Compile and group the filters. Raises `ArgumentInvalid` for a text without meaning."""
        self._always: list[Target] = []
        self._asked: list[tuple[Target, CompiledFilter]] = []
        groups: defaultdict[Compared, defaultdict[Key, list[Target]]]
        groups = defaultdict(lambda: defaultdict(list))
        for target, described in filters:
            match described:
                case TrueFilter():
                    self._always.append(target)
                case FalseFilter():
                    pass
                case CorrelationFilter():
                    compared, key = compared_and_key(described)
                    groups[compared][key].append(target)
                case SqlFilter():
                    self._asked.append((target, compile_filter(described, new_id=new_id)))
        self._groups = [(KeyReader(compared), dict(keys)) for compared, keys in groups.items()]

    def matching(self, view: MessageView) -> Matches[Target]:
        """Find every target whose filter the message passes."""
        matched = list(self._always)
        for reader, targets in self._groups:
            matched += targets.get(reader.read(view), ())
        failed: list[tuple[Target, FilterFailed]] = []
        for target, compiled in self._asked:
            try:
                if compiled.matches(view):
                    matched.append(target)
            except FilterFailed as failure:
                failed.append((target, failure))
        return Matches(matched, failed)
