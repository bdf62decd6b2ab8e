"""From the text of a filter or an action to its tree.

The grammar is LALR(1), so a text is read once from left to right without going back, and it
keeps conditions apart from expressions: `a = 1` cannot be added to anything, and `a` alone is
no condition. Importing this module loads the parser generator, which takes longer than all the
rest of the model: import it where a text is compiled, not before.
"""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Final, cast

from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken

from bendybus.model import filter_tree as tree
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.filter_tree_builder import (
    position,
    refusal,
    refuse_reserved,
    tree_builder,
)
from bendybus.model.sql_values import INT64_MAX, INT64_MIN

# Brackets, signs and NOTs inside each other. Each level costs a frame of the stack or two when
# the filter is evaluated, which must succeed however deep the caller's stack is already.
DEPTH_MAX: Final = 64
STATEMENTS_MAX: Final = 32

_GRAMMAR: Final = r"""
    ?filter: condition
    action: statement (_separator? statement)* _separator?

    ?condition: conjunction (_OR conjunction)+          -> any_of
        | conjunction
    ?conjunction: negation (_AND negation)+             -> all_of
        | negation
    ?negation: NOT negation                             -> opposite
        | predicate
    ?predicate: sum comparator sum                      -> comparison
        | reference _IS [NOT] NULL                      -> is_null
        | sum [NOT] _IN "(" sum ("," sum)* ")"          -> is_in
        | sum [NOT] _LIKE sum [_ESCAPE sum]             -> is_like
        | _EXISTS "(" property ")"                      -> exists
        | "(" condition ")"
    !comparator: "=" | COMPARATOR

    ?sum: product (SIGN product)+                       -> chain
        | product
    ?product: signed (FACTOR signed)+                   -> chain
        | signed
    ?signed: SIGN signed                                -> sign
        | operand
    ?operand: reference
        | WORD "(" ")"                                  -> call
        | PARAMETER                                     -> parameter
        | INTEGER                                       -> integer
        | DECIMAL                                       -> decimal
        | STRING                                        -> string
        | TRUE                                          -> true
        | FALSE                                         -> false
        | NULL                                          -> null
        | "(" sum ")"
    ?reference: property
        | WORD "(" sum ")"                              -> call
    property: [WORD "."] name
    ?name: WORD                                         -> word
        | BRACKETED                                     -> bracketed
        | QUOTED                                        -> quoted

    ?statement: _SET property "=" sum                   -> set_property
        | _REMOVE property                              -> remove_property
    _separator: ";" | ","

    // Words end where they end: ANDx is a name. They come before WORD by priority, and only
    // where the grammar has room for them.
    _OR.2: /OR\b/i
    _AND.2: /AND\b/i
    NOT.2: /NOT\b/i
    _IS.2: /IS\b/i
    NULL.2: /NULL\b/i
    _IN.2: /IN\b/i
    _LIKE.2: /LIKE\b/i
    _ESCAPE.2: /ESCAPE\b/i
    _EXISTS.2: /EXISTS\b/i
    _SET.2: /SET\b/i
    _REMOVE.2: /REMOVE\b/i
    TRUE.2: /TRUE\b/i
    FALSE.2: /FALSE\b/i

    COMPARATOR: "<>" | "!=" | "<=" | ">=" | "<" | ">"
    SIGN: "+" | "-"
    FACTOR: "*" | "/" | "%"
    WORD: /[^\W\d_]\w*/
    PARAMETER: /@[^\W\d]\w*/
    // Without going back: a doubled mark never ends a text or a name.
    STRING: /'(?:[^']|'')*+'/
    BRACKETED: /\[(?:[^\]]|\]\])++\]/
    QUOTED: /"(?:[^"]|"")++"/
    INTEGER: /[0-9]+/
    DECIMAL.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:E[+-]?[0-9]+)?|[0-9]+E[+-]?[0-9]+/i
    %ignore /\s+/
"""

# What may come next, in words, for the places where no value can.
_EXPECTATIONS: Final = (
    ("a name", {"WORD"}),
    ("an operator", {"SIGN", "FACTOR"}),
    ("a comparison", {"COMPARATOR"}),
    ("=", {"EQUAL"}),  # where it assigns
    ("NOT", {"NOT"}),
    ("NULL", {"NULL"}),
    ("IS", {"_IS"}),
    ("IN", {"_IN"}),
    ("LIKE", {"_LIKE"}),
    ("ESCAPE", {"_ESCAPE"}),
    ("AND", {"_AND"}),
    ("OR", {"_OR"}),
    ("SET", {"_SET"}),
    ("REMOVE", {"_REMOVE"}),
    ("'('", {"LPAR"}),
    ("','", {"COMMA"}),
    ("';'", {"SEMICOLON"}),
    ("')'", {"RPAR"}),
    ("the end", {"$END"}),
)
_UNCLOSED: Final = {
    "'": "the text that begins here has no closing '",
    "[": "the name that begins here is empty or has no closing ]",
    '"': 'the name that begins here is empty or has no closing "',
}


def parse_filter(text: str) -> tree.Condition:
    """Read a filter. Raises `ArgumentInvalid` with the place and the reason."""
    condition = cast("tree.Condition", _parse(text, "filter"))
    _check(condition)
    return condition


def parse_action(text: str) -> tuple[tree.Statement, ...]:
    """Read an action: one or more statements. Raises like `parse_filter`."""
    statements = cast("tuple[tree.Statement, ...]", _parse(text, "action"))
    if len(statements) > STATEMENTS_MAX:
        raise ArgumentInvalid(
            f"an action has at most {STATEMENTS_MAX} statements, not {len(statements)}",
            argument="expression",
        )
    for statement in statements:
        _check(statement)
    return statements


@cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR,
        parser="lalr",
        start=["filter", "action"],
        transformer=tree_builder(),
        lexer_callbacks={"WORD": refuse_reserved},
    )


def _parse(text: str, start: str) -> object:
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        raise _refusal_of(error, text) from None


def _refusal_of(error: UnexpectedInput, text: str) -> ArgumentInvalid:
    if isinstance(error, UnexpectedToken):
        expected = _expected(error.accepts)
        if error.token.type == "$END":
            return refusal(f"expected {expected}, found the end of the text", len(text))
        return refusal(f"expected {expected}, found {error.token}", position(error.token))
    at = cast("int", error.pos_in_stream)
    character = text[at]
    return refusal(_UNCLOSED.get(character, f"the character {character} has no meaning here"), at)


def _expected(accepted: set[str]) -> str:
    if "INTEGER" in accepted:
        return "a condition" if "_EXISTS" in accepted else "a value"
    if "COMPARATOR" in accepted:
        accepted = accepted - {"EQUAL"}
    *others, last = [words for words, terminals in _EXPECTATIONS if terminals & accepted]
    return f"{', '.join(others)} or {last}" if others else last


def _check(root: tree.Node) -> None:
    """Refuse numbers that do not fit, and a tree too deep to be evaluated by recursion."""
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise ArgumentInvalid(
                f"the text is nested more than {DEPTH_MAX} levels deep", argument="expression"
            )
        if isinstance(node, tree.Constant):
            _check_number(node)
        waiting += [(child, depth + 1) for child in _children(node)]


def _check_number(constant: tree.Constant) -> None:
    match constant.value:
        case int() as number if not INT64_MIN <= number <= INT64_MAX:
            raise refusal("the integer does not fit 64 bits", constant.at)
        case float() as number if number in (float("inf"), float("-inf")):
            raise refusal("the number is too large for a double", constant.at)


def _children(node: tree.Node) -> Iterator[tree.Node]:
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tree.Node):
            yield value
        elif isinstance(value, tuple):
            yield from value
