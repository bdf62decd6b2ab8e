"""From the tree of an expression to a function of the message.

Every node becomes a closure over those of its parts, made once when a rule is compiled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from bendybus.model import filter_tree as tree
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.message_view import MessageView, fold_name, system_name
from bendybus.model.rule import PropertyValue, SqlAction, SqlFilter, parameter_key
from bendybus.model.sql_values import ARITHMETIC, FilterFailed, keep_sign, negate

Evaluate = Callable[[MessageView], object]
NewIdentifier = Callable[[], UUID]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an expression may use that is neither in its text nor in the message."""

    parameters: Mapping[str, PropertyValue]  # under their keys
    new_id: NewIdentifier

    @classmethod
    def of(cls, sql: SqlFilter | SqlAction, new_id: NewIdentifier) -> "Surroundings":
        """Take the parameters that come with a text."""
        return cls({parameter_key(name): v for name, v in sql.parameters.items()}, new_id)


def compile_expression(  # noqa: PLR0911 - one answer for each kind of node
    node: tree.Expression, surroundings: Surroundings
) -> Evaluate:
    """Make the function that computes the value. Raises `ArgumentInvalid`."""
    match node:
        case tree.Constant(value):
            return lambda _: value
        case tree.Property(scope, name):
            return property_reader(scope, name)
        case tree.Parameter():
            bound = parameter_value(node, surroundings)
            return lambda _: bound
        case tree.NewId():
            new_id = surroundings.new_id
            return lambda _: new_id()
        case tree.PropertyCalled(name):
            return _property_called(compile_expression(name, surroundings))
        case tree.Signed(sign, operand):
            return _signed(sign, compile_expression(operand, surroundings))
        case tree.Arithmetic():
            return _arithmetic(node, surroundings)
        case _:
            assert_never(node)


def constant_value(node: tree.Expression, surroundings: Surroundings) -> PropertyValue | None:
    """The value of what needs no message: a constant or a parameter; None for all else."""
    match node:
        case tree.Constant(value):
            return value
        case tree.Parameter():
            return parameter_value(node, surroundings)
        case _:
            return None


def parameter_value(node: tree.Parameter, surroundings: Surroundings) -> PropertyValue:
    """The value that came beside the text. Raises `ArgumentInvalid` if none did."""
    try:
        return surroundings.parameters[parameter_key(node.name)]
    except KeyError:
        raise ArgumentInvalid(
            f"the parameter @{node.name} at character {node.at + 1} has no value",
            argument="parameters",
        ) from None


def property_reader(scope: tree.Scope, name: str) -> Evaluate:
    """Make the function that reads a property: None where the message has none.

    A system property that does not exist fails when it is read, not before: a condition that
    does not come to it must not fail.
    """
    if scope == "user":
        key = fold_name(name)
        return lambda view: view.user.get(key)
    known = system_name(name)
    if known is None:
        return _missing_system_property(name)
    return lambda view: view.system(known)


def _missing_system_property(name: str) -> Evaluate:
    def fail(_: MessageView) -> object:
        raise FilterFailed(f"there is no system property {name}")

    return fail


def _property_called(name: Evaluate) -> Evaluate:
    def read(view: MessageView) -> object:
        wanted = name(view)
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            raise FilterFailed("the name given to property() is not a text")
        scope, dot, rest = wanted.partition(".")
        match scope.lower():
            case "sys" if dot:
                return property_reader("sys", rest)(view)
            case "user" if dot:
                return view.user.get(fold_name(rest))
            case _:
                return view.user.get(fold_name(wanted))

    return read


def _signed(sign: str, operand: Evaluate) -> Evaluate:
    apply = negate if sign == "-" else keep_sign
    return lambda view: apply(operand(view))


def _arithmetic(node: tree.Arithmetic, surroundings: Surroundings) -> Evaluate:
    first = compile_expression(node.first, surroundings)
    steps = [
        (ARITHMETIC[step.operator], compile_expression(step.operand, surroundings))
        for step in node.steps
    ]

    def calculate(view: MessageView) -> object:
        result = first(view)
        for operation, operand in steps:
            result = operation(result, operand(view))
        return result

    return calculate
