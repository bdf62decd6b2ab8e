"""Deciding whether a message passes a filter.

A filter is compiled once, when its rule is read, and asked for every message. A condition is
true, false or unknown (None); a message passes only what is true.
"""

from collections.abc import Callable
from typing import Final, Protocol, assert_never

from bendybus.model import filter_tree as tree
from bendybus.model.correlation import KeyReader, compared_and_key
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.like_pattern import PatternInvalid, compile_pattern
from bendybus.model.message_view import MessageView, fold_name
from bendybus.model.rule import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from bendybus.model.sql_expressions import (
    Evaluate,
    NewIdentifier,
    Surroundings,
    compile_expression,
    constant_value,
    property_reader,
)
from bendybus.model.sql_values import (
    COMPARATORS,
    NUMBERS,
    FilterFailed,
    Kind,
    Truth,
    compare,
    kind_of,
)

Decide = Callable[[MessageView], Truth]
_MIRRORED: Final[dict[tree.Comparator, tree.Comparator]] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


class CompiledFilter(Protocol):
    """A filter ready to be asked."""

    def matches(self, view: MessageView) -> bool:
        """Whether the message passes. Raises `FilterFailed`."""
        ...


class _Always:
    """The filter of a rule that does not look at the message."""

    def __init__(self, answer: bool) -> None:  # noqa: FBT001 - the only thing it has
        self._answer = answer

    def matches(self, _: MessageView) -> bool:
        return self._answer


class _Correlation:
    """All fields that are set equal those of the message."""

    def __init__(self, described: CorrelationFilter) -> None:
        compared, self._key = compared_and_key(described)
        self._reader = KeyReader(compared)

    def matches(self, view: MessageView) -> bool:
        return self._reader.read(view) == self._key


class _Sql:
    """The condition is true."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def matches(self, view: MessageView) -> bool:
        return self._decide(view) is True


def compile_filter(described: Filter, *, new_id: NewIdentifier) -> CompiledFilter:
    """Make a filter that can be asked. Raises `ArgumentInvalid` if its text has no meaning."""
    match described:
        case TrueFilter():
            return _Always(True)
        case FalseFilter():
            return _Always(False)
        case CorrelationFilter():
            return _Correlation(described)
        case SqlFilter(expression):
            from bendybus.model.filter_grammar import parse_filter

            condition = parse_filter(expression)
            return _Sql(_condition(condition, Surroundings.of(described, new_id)))
        case _:
            assert_never(described)


def _condition(  # noqa: PLR0911 - one answer for each kind of node
    node: tree.Condition, surroundings: Surroundings
) -> Decide:
    match node:
        case tree.Comparison():
            return _comparison(node, surroundings)
        case tree.IsNull(operand):
            read = compile_expression(operand, surroundings)
            return lambda view: read(view) is None
        case tree.In():
            return _in(node, surroundings)
        case tree.Like():
            return _like(node, surroundings)
        case tree.Exists(wanted):
            return _exists(wanted)
        case tree.Not(part):
            return _opposite(_condition(part, surroundings))
        case tree.And(parts):
            return _all_of([_condition(part, surroundings) for part in parts])
        case tree.Or(parts):
            return _any_of([_condition(part, surroundings) for part in parts])
        case _:
            assert_never(node)


def _opposite(decide: Decide) -> Decide:
    def opposite(view: MessageView) -> Truth:
        answer = decide(view)
        return None if answer is None else not answer

    return opposite


def _all_of(parts: list[Decide]) -> Decide:
    def all_of(view: MessageView) -> Truth:
        result: Truth = True
        for part in parts:
            answer = part(view)
            if answer is False:
                return False
            if answer is None:
                result = None
        return result

    return all_of


def _any_of(parts: list[Decide]) -> Decide:
    def any_of(view: MessageView) -> Truth:
        result: Truth = False
        for part in parts:
            answer = part(view)
            if answer is True:
                return True
            if answer is None:
                result = None
        return result

    return any_of


def _comparison(node: tree.Comparison, surroundings: Surroundings) -> Decide:
    comparator = node.comparator
    left = compile_expression(node.left, surroundings)
    right = compile_expression(node.right, surroundings)
    constant = constant_value(node.right, surroundings)
    if constant is not None:
        return _compare_with(left, comparator, constant)
    constant = constant_value(node.left, surroundings)
    if constant is not None:
        return _compare_with(right, _MIRRORED[comparator], constant)
    return lambda view: compare(comparator, left(view), right(view))


def _compare_with(operand: Evaluate, comparator: tree.Comparator, constant: object) -> Decide:
    """Compare with a constant, nearly what every filter does: its kind is known beforehand."""
    operation = COMPARATORS[comparator]
    match kind_of(constant):
        case Kind.TEXT:

            def compare_text(view: MessageView) -> Truth:
                value = operand(view)
                return operation(value, constant) if isinstance(value, str) else None

            return compare_text
        case Kind.NUMBER:

            def compare_number(view: MessageView) -> Truth:
                value = operand(view)
                if isinstance(value, NUMBERS) and type(value) is not bool:
                    return operation(value, constant)
                return None

            return compare_number
        case _:
            return lambda view: compare(comparator, operand(view), constant)


def _in(node: tree.In, surroundings: Surroundings) -> Decide:
    """Equal to one of the choices; unknown only if the operand is.

    A choice that is unknown or of another kind is one that the operand does not equal, so
    NOT IN can be true beside it, unlike a chain of `<>`.
    """
    operand = compile_expression(node.operand, surroundings)
    constants = [constant_value(choice, surroundings) for choice in node.choices]
    if all(isinstance(constant, str) for constant in constants):
        return _in_texts(operand, frozenset(constants))
    choices = [compile_expression(choice, surroundings) for choice in node.choices]

    def is_in(view: MessageView) -> Truth:
        value = operand(view)
        if value is None:
            return None
        return any(compare("=", value, choice(view)) for choice in choices)

    return is_in


def _in_texts(operand: Evaluate, texts: frozenset[object]) -> Decide:
    def is_in_texts(view: MessageView) -> Truth:
        value = operand(view)
        if value is None:
            return None
        return isinstance(value, str) and value in texts

    return is_in_texts


def _like(node: tree.Like, surroundings: Surroundings) -> Decide:
    operand = compile_expression(node.operand, surroundings)
    pattern = constant_value(node.pattern, surroundings)
    escape = None if node.escape is None else constant_value(node.escape, surroundings)
    if isinstance(pattern, str) and node.escape is None:
        return _like_constant(operand, pattern, None)
    if isinstance(pattern, str) and isinstance(escape, str):
        return _like_constant(operand, pattern, escape)
    return _like_computed(node, operand, surroundings)


def _like_constant(operand: Evaluate, pattern: str, escape: str | None) -> Decide:
    try:
        fullmatch = compile_pattern(pattern, escape).fullmatch
    except PatternInvalid as error:
        raise ArgumentInvalid(str(error), argument="expression") from None

    def is_like(view: MessageView) -> Truth:
        value = operand(view)
        return fullmatch(value) is not None if isinstance(value, str) else None

    return is_like


def _like_computed(node: tree.Like, operand: Evaluate, surroundings: Surroundings) -> Decide:
    read_pattern = compile_expression(node.pattern, surroundings)
    read_escape = None if node.escape is None else compile_expression(node.escape, surroundings)

    def is_like(view: MessageView) -> Truth:
        value, pattern = operand(view), read_pattern(view)
        escape = None if read_escape is None else read_escape(view)
        if not isinstance(value, str) or not isinstance(pattern, str):
            return None
        if read_escape is not None and not isinstance(escape, str):
            return None
        try:
            return compile_pattern(pattern, escape).fullmatch(value) is not None
        except PatternInvalid as error:
            raise FilterFailed(str(error)) from None

    return is_like


def _exists(wanted: tree.Property) -> Decide:
    """A user's property exists also when it is null; one of the system when it has a value."""
    if wanted.scope == "user":
        key = fold_name(wanted.name)
        return lambda view: key in view.user
    read = property_reader("sys", wanted.name)
    return lambda view: read(view) is not None
