"""What no other tool checks about the code itself."""

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO

import pytest

from tests.tidy.tree import files_with, parse, python_files, read

MARKS = {"pytest.mark.spec": "spec", "pytest.mark.amqp": "amqp"}
SPEC_RULE = re.compile(r"R\d+(\.\d+)?")
AMQP_SECTION = re.compile(r"\d+(\.\d+)+")
EXEMPTION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|fmt:)", re.IGNORECASE)
# The rule that is silenced, then the reason, after a dash, colon, bracket or second hash.
EXEMPTION_WITH_REASON = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\]|pragma: no cover|fmt: \w+)"
    r"(?!\w)(\s*[-#:(]\s*|\s+)\w+"
)


# What most files begin with; the others are parsed.
DOCSTRING = re.compile(r'"""\w[^"]*"""\n')


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path)
        for path in python_files()
        if not DOCSTRING.match(text := read(path))
        if text.strip() and ast.get_docstring(parse(path)) is None
    ]
    assert not silent, "begin the file with a sentence on what it is for"


def test_ordinary_code_has_no_imports_for_type_checking_only() -> None:
    word = "TYPE_CHECKING"
    hidden = [str(path) for path in files_with(word, "src") if word in names(parse(path))]
    assert not hidden, "two modules know each other: move what they share"


def test_no_test_sleeps_or_uses_mocks() -> None:
    suspects = files_with("sleep|mock", "tests")
    found = {str(path): bad for path in suspects if (bad := distrusted(parse(path)))}
    assert not found, "wait for a condition; use the real thing or a fake that passes the contract"


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "from time import sleep",
        "import asyncio\nawait asyncio.sleep(0.1)",
        "from unittest import mock",
        "from unittest.mock import patch",
        "import unittest.mock",
    ],
)
def test_sleeping_and_mocking_are_found(source: str) -> None:
    assert distrusted(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "await asyncio.sleep(0)",
        "clock.sleep(1)",
        "while not ready():\n    assert now() < deadline\n    time.sleep(0.01)",
    ],
)
def test_giving_way_polling_and_fake_clocks_are_not_sleeping(source: str) -> None:
    assert not distrusted(ast.parse(source))


def test_every_exemption_from_a_tool_names_the_rule_and_the_reason() -> None:
    exempted = files_with(f"(?i:{EXEMPTION.pattern})")
    bare = [f"{path}:{line}" for path in exempted for line in bare_exemptions(read(path))]
    assert not bare, "write: # noqa: CODE - reason, or # type: ignore[code]  # reason"


@pytest.mark.parametrize(
    ("comment", "is_bare"),
    [
        ("# noqa", True),
        ("# noqa: S101", True),
        ("# noqa: S101, D103", True),
        ("# type: ignore", True),
        ("# type: ignore[arg-type]", True),
        ("# noqa: S101 - the protocol would break", False),
        ("# noqa: S101 (the protocol would break)", False),
        ("# type: ignore[arg-type]  # the stub is wrong", False),
        ("# plain words", False),
    ],
)
def test_an_exemption_without_a_reason_is_found(comment: str, is_bare: bool) -> None:
    assert bool(list(bare_exemptions(f"x = 1  {comment}\n"))) is is_bare


def test_marks_name_rules_and_sections_in_the_agreed_form() -> None:
    wrong = [
        f"{path}: {mark}({value!r})"
        for path in files_with(r"\.\s*(spec|amqp)\b", "src", "tests")
        for mark, value in marks(parse(path))
        if not (SPEC_RULE if mark == "spec" else AMQP_SECTION).fullmatch(value)
    ]
    assert not wrong, 'write spec("R2.4") or amqp("2.6.7")'


def names(tree: ast.Module) -> set[str]:
    """Every plain name and imported name of a module."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
    return used | imported


def distrusted(tree: ast.Module) -> list[str]:
    """Imports and calls that make a test slow, flaky or true of a mock alone.

    A pause inside `while` is allowed: there it only spaces out the looks at a condition.
    """
    polls = {
        id(inner)
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While)
        for inner in ast.walk(loop)
    }
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import | ast.ImportFrom) and _imports_distrusted(node))
        or (isinstance(node, ast.Call) and _sleeps(node) and id(node) not in polls)
    ]


def _imports_distrusted(node: ast.Import | ast.ImportFrom) -> bool:
    module = node.module if isinstance(node, ast.ImportFrom) else None
    full = {f"{module}.{alias.name}" if module else alias.name for alias in node.names}
    return any(name == "time.sleep" or name.startswith("unittest.mock") for name in full)


def _sleeps(call: ast.Call) -> bool:
    """`asyncio.sleep(0)` only gives way to other tasks, which is no waiting."""
    # Writing out every call would take seconds.
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sleep":
        return False
    gives_way = bool(call.args) and ast.unparse(call.args[0]) == "0"
    return ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"} and not gives_way


def bare_exemptions(source: str) -> Iterator[int]:
    """Lines whose comment silences a tool without naming both rule and reason."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type != tokenize.COMMENT or not EXEMPTION.match(token.string):
            continue
        if not EXEMPTION_WITH_REASON.match(token.string):
            yield token.start[0]


def marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The arguments of every `pytest.mark.spec` and `pytest.mark.amqp`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        # Writing out every call would take seconds.
        if node.func.attr in MARKS.values() and (mark := MARKS.get(ast.unparse(node.func))):
            yield from ((mark, str(ast.literal_eval(argument))) for argument in node.args)
