"""Files and functions stay small enough to be read in one go."""

import ast
from pathlib import Path

from tests.tidy.tree import functions, parse, python_files, read

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

# "path::function" -> why it is better long. An entry that is no longer needed fails.
LONG_FUNCTIONS_ALLOWED: dict[str, str] = {
    "src/bendybus/amqp/plain_frames.py::read": (
        "runs for every transfer; written out it parses twice as many a second as in pieces"
    ),
}


def test_no_python_file_is_longer_than_the_limit() -> None:
    lengths = {path: len(read(path).splitlines()) for path in python_files()}
    too_long = {str(path): count for path, count in lengths.items() if count > FILE_LINES_MAX}
    assert not too_long, "split these files by subject"


def test_only_the_functions_on_the_list_are_longer_than_the_limit() -> None:
    long = {
        function.place
        for path in python_files()
        for function in functions(parse(path), path)
        if function.line_count > FUNCTION_LINES_MAX
    }
    assert long == LONG_FUNCTIONS_ALLOWED.keys(), "split, or give the reason on the list"


def test_a_function_is_measured_from_its_def_to_its_last_line() -> None:
    source = "class A:\n    @decorated\n    def f(self):\n        x = 1\n\n        return x\n"
    [function] = functions(ast.parse(source), Path("a.py"))
    assert (function.place, function.line_count) == ("a.py::f", 4)
