"""Files and classes are named for their subject, tests for what they show."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import files_with, functions, parse, python_files

VAGUE_FILE_NAMES = frozenset(
    {"adapters", "base", "common", "core", "helper", "helpers", "interfaces", "misc", "shared"}
    | {"manager", "managers", "tools", "types", "util", "utils", "wrappers"}
)
VAGUE_CLASS_NAME = re.compile(
    r"(Abstract|Base)([A-Z]\w*)?|\w*(Data|Helper|Impl|Info|Manager|Utils)"
)
TEST_WORDS_MIN = 3
SHORT = rf"def\s+test_([^\W_]*_){{,{TEST_WORDS_MIN - 2}}}[^\W_]*\b"


def vague_class_names(tree: ast.Module) -> list[str]:
    """Classes that begin or end with the name of a pattern instead of a subject."""
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [name for name in names if VAGUE_CLASS_NAME.fullmatch(name)]


def test_no_file_or_folder_has_a_vague_name() -> None:
    vague = [
        str(path) for path in python_files() if VAGUE_FILE_NAMES & {path.stem, *path.parent.parts}
    ]
    assert not vague, "name it after its subject"


def test_no_class_is_named_after_a_pattern() -> None:
    suspects = files_with(rf"class\s+({VAGUE_CLASS_NAME.pattern})\b")
    vague = {str(path): names for path in suspects if (names := vague_class_names(parse(path)))}
    assert not vague, "name it after its subject"


@pytest.mark.parametrize("name", ["QueueManager", "BaseStore", "MessageData", "StoreImpl"])
def test_a_class_named_after_a_pattern_is_found(name: str) -> None:
    assert vague_class_names(ast.parse(f"class {name}: ...")) == [name]


@pytest.mark.parametrize("name", ["Database", "Queue", "Baseline"])
def test_a_class_named_after_its_subject_is_not_found(name: str) -> None:
    assert vague_class_names(ast.parse(f"class {name}: ...")) == []


def test_the_name_of_every_test_is_a_sentence() -> None:
    short = [
        function.place
        for path in files_with(SHORT, "tests")
        if _holds_tests(path)
        for function in functions(parse(path), path)
        if function.name.startswith("test_") and function.name.count("_") < TEST_WORDS_MIN
    ]
    assert not short, "say what must be true"


def _holds_tests(path: Path) -> bool:
    return path.name.startswith("test_")
