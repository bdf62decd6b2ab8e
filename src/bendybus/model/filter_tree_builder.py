"""Makes the tree of a filter or an action while `filter_grammar` reads its text.

One method for each rule of the grammar that is named there behind an arrow or before a colon.
"""

from typing import Final, cast

from lark import Token, Transformer, v_args

from bendybus.model import filter_tree as tree
from bendybus.model.errors import ArgumentInvalid

_RESERVED: Final = frozenset(
    "AND ESCAPE EXISTS FALSE IN IS LIKE NOT NULL OR TRUE".split()  # noqa: SIM905 - reads as text
)


def refusal(reason: str, at: int) -> ArgumentInvalid:
    """Make the refusal of a text for what stands at a place, counted from 0."""
    return ArgumentInvalid(f"syntax error at character {at + 1}: {reason}", argument="expression")


@v_args(inline=True)
class _TreeBuilder(Transformer[Token, object]):
    """Makes the tree from the bottom up while the parser runs, so that no depth can hurt it."""

    def any_of(self, *parts: tree.Condition) -> tree.Or:
        return tree.Or(parts)

    def all_of(self, *parts: tree.Condition) -> tree.And:
        return tree.And(parts)

    def opposite(self, _: Token, condition: tree.Condition) -> tree.Condition:
        return tree.Not(condition)

    def comparison(
        self, left: tree.Expression, comparator: tree.Comparator, right: tree.Expression
    ) -> tree.Comparison:
        return tree.Comparison(left, comparator, right)

    def comparator(self, symbol: Token) -> str:
        return "<>" if symbol == "!=" else str(symbol)

    def is_null(
        self, operand: tree.Property | tree.PropertyCalled, negated: Token | None, _: Token
    ) -> tree.Condition:
        return _negated(tree.IsNull(operand), negated)

    def is_in(
        self, operand: tree.Expression, negated: Token | None, *choices: tree.Expression
    ) -> tree.Condition:
        return _negated(tree.In(operand, choices), negated)

    def is_like(
        self,
        operand: tree.Expression,
        negated: Token | None,
        pattern: tree.Expression,
        escape: tree.Expression | None,
    ) -> tree.Condition:
        return _negated(tree.Like(operand, pattern, escape), negated)

    def exists(self, operand: tree.Property) -> tree.Exists:
        return tree.Exists(operand)

    def chain(self, first: tree.Expression, *rest: object) -> tree.Arithmetic:
        operators = cast("tuple[Token, ...]", rest[::2])
        operands = cast("tuple[tree.Expression, ...]", rest[1::2])
        steps = zip(operators, operands, strict=True)
        return tree.Arithmetic(
            first,
            tuple(
                tree.Step(cast("tree.ArithmeticOperator", str(operator)), operand)
                for operator, operand in steps
            ),
        )

    def sign(self, symbol: Token, operand: tree.Expression) -> tree.Expression:
        # The least integer has no positive counterpart, so the sign belongs to the constant.
        if isinstance(operand, tree.Constant) and type(operand.value) in (int, float):
            number = cast("float", operand.value)
            return tree.Constant(-number if symbol == "-" else number, position(symbol))
        return tree.Signed("-" if symbol == "-" else "+", operand)

    def call(self, name: Token, argument: tree.Expression | None = None) -> tree.Expression:
        match name.lower(), argument:
            case "newid", None:
                return tree.NewId()
            case "property" | "p", argument if argument is not None:
                return tree.PropertyCalled(argument)
        raise refusal(
            f"the functions are newid(), property(name) and p(name); {name} cannot be called so",
            position(name),
        )

    def parameter(self, token: Token) -> tree.Parameter:
        return tree.Parameter(token[1:], position(token))

    def integer(self, token: Token) -> tree.Constant:
        return tree.Constant(int(token), position(token))

    def decimal(self, token: Token) -> tree.Constant:
        return tree.Constant(float(token), position(token))

    def string(self, token: Token) -> tree.Constant:
        return tree.Constant(token[1:-1].replace("''", "'"), position(token))

    def true(self, _: Token) -> tree.Constant:
        return tree.Constant(True)

    def false(self, _: Token) -> tree.Constant:
        return tree.Constant(False)

    def null(self, _: Token) -> tree.Constant:
        return tree.Constant(None)

    def property(self, scope: Token | None, name: str) -> tree.Property:
        if scope is None or scope.lower() == "user":
            return tree.Property("user", name)
        if scope.lower() == "sys":
            return tree.Property("sys", name)
        raise refusal(f"the scope is sys or user, not {scope}", position(scope))

    def word(self, token: Token) -> str:
        return str(token)

    def bracketed(self, token: Token) -> str:
        return token[1:-1].replace("]]", "]")

    def quoted(self, token: Token) -> str:
        return token[1:-1].replace('""', '"')

    def set_property(self, target: tree.Property, value: tree.Expression) -> tree.SetProperty:
        return tree.SetProperty(target, value)

    def remove_property(self, target: tree.Property) -> tree.RemoveProperty:
        return tree.RemoveProperty(target)

    def action(self, *statements: tree.Statement) -> tuple[tree.Statement, ...]:
        return statements


def tree_builder() -> Transformer[Token, object]:
    """Make the object that the parser calls for each rule it has read."""
    return _TreeBuilder()


def refuse_reserved(word: Token) -> Token:
    """Let a word pass as a name unless it has a meaning elsewhere in the language."""
    if word.upper() in _RESERVED:
        reason = f"{word} is a reserved word; as a name it is written [{word}]"
        raise refusal(reason, position(word))
    return word


def _negated(condition: tree.Condition, negated: Token | None) -> tree.Condition:
    return condition if negated is None else tree.Not(condition)


def position(token: Token) -> int:
    """Where the token begins in the text, counted from 0."""
    assert token.start_pos is not None
    return token.start_pos
