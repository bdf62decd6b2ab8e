"""Reads an engine's `queries/*.sql`: every statement by its name, so that SQL is in one place."""

import re
from importlib.resources.abc import Traversable


def read_statements(folder: Traversable) -> dict[str, str]:
    """Return the statements of an engine by their names, which are the same in all engines."""
    statements: dict[str, str] = {}
    for file in sorted(folder.joinpath("queries").iterdir(), key=lambda each: each.name):
        parts = re.split(r"^-- name: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in statements, f"two statements are named {name}"
            statements[name] = text.strip()
    return statements
