"""The files of the project, as the house rules see them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "bench", "scripts")


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is, or could be, under version control, relative to the root.

    Walks instead of asking git, so that the rules also hold in an unpacked archive.
    """
    return tuple(sorted(_walk(ROOT, _ignored_names())))


def python_files(*folders: str) -> list[Path]:
    """The Python files below the folders, or below every folder that holds code."""
    wanted = folders or CODE_FOLDERS
    return [path for path in project_files() if path.suffix == ".py" and path.parts[0] in wanted]


def read(path: Path) -> str:
    """The text of a file given relative to the root; empty for a binary one."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file given relative to the root.

    All of them take seconds to make and hundreds of megabytes to keep. So a rule asks first for
    files that have the word it is about, and none are kept.
    """
    return ast.parse(read(path), filename=str(path))


def files_with(pattern: str, *folders: str) -> Iterator[Path]:
    """The Python files below the folders whose text has this somewhere, be it in a comment."""
    sought = re.compile(pattern)
    return (path for path in python_files(*folders) if sought.search(read(path)))


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method, and where it stands."""

    place: str
    name: str
    line_count: int


def functions(tree: ast.Module, path: Path) -> Iterator[Function]:
    """Every function of a module, also methods and nested ones; decorators do not count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Function(f"{path}::{node.name}", node.name, node.end_lineno - node.lineno + 1)


def _walk(folder: Path, ignored: tuple[str, ...]) -> Iterator[Path]:
    for entry in folder.iterdir():
        if any(fnmatch(entry.name, pattern) for pattern in ignored):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, ignored)
        elif entry.is_file():
            yield entry.relative_to(ROOT)


def _ignored_names() -> tuple[str, ...]:
    """Patterns of .gitignore, which are all plain names here, and git's own folder."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = (line.strip().rstrip("/") for line in lines)
    return (".git", *(pattern for pattern in patterns if pattern and not pattern.startswith("#")))
