"""The tree of a filter's or an action's text. Plain values; `filter_grammar` makes them.

Chains are flat: `a OR b OR c` is one node with three parts and `1 + 2 - 3` one with two steps.
What remains of depth comes from brackets, NOT and signs, and the grammar bounds it.
"""

from dataclasses import dataclass
from typing import Literal

Scope = Literal["sys", "user"]
Comparator = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
ConstantValue = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, TRUE, FALSE or NULL; `at` counts characters from 0."""

    value: ConstantValue
    at: int = 0


@dataclass(frozen=True, slots=True)
class Property:
    """A property by name, as the text spells it."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that comes beside the text, named without its `@`."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class NewId:
    """`newid()`."""


@dataclass(frozen=True, slots=True)
class PropertyCalled:
    """`property(name)`: the name is known only when it is evaluated."""

    name: "Expression"


@dataclass(frozen=True, slots=True)
class Signed:
    """A plus or minus before an operand."""

    sign: Literal["+", "-"]
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Step:
    """One operator and its right operand in a chain."""

    operator: ArithmeticOperator
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A chain of operators of one precedence, from left to right."""

    first: "Expression"
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands and how they should compare."""

    left: "Expression"
    comparator: Comparator
    right: "Expression"


@dataclass(frozen=True, slots=True)
class IsNull:
    """True for a property that is missing or null."""

    operand: Property | PropertyCalled


@dataclass(frozen=True, slots=True)
class In:
    """True if the operand equals one of the choices."""

    operand: "Expression"
    choices: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Like:
    """True if the operand's text has the shape of the pattern."""

    operand: "Expression"
    pattern: "Expression"
    escape: "Expression | None"


@dataclass(frozen=True, slots=True)
class Exists:
    """True if the message has the property, null or not."""

    property: Property


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    """False if one part is, else unknown if one part is, else true."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if one part is, else unknown if one part is, else false."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class SetProperty:
    """`SET property = value`."""

    property: Property
    value: "Expression"


@dataclass(frozen=True, slots=True)
class RemoveProperty:
    """`REMOVE property`."""

    property: Property


Expression = Constant | Property | Parameter | NewId | PropertyCalled | Signed | Arithmetic
Condition = Comparison | IsNull | In | Like | Exists | Not | And | Or
Statement = SetProperty | RemoveProperty
Node = Expression | Step | Condition | Statement
