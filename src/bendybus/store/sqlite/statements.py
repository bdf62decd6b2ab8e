"""Reads `queries/*.sql`: every statement by its name, so that SQL is written in one place."""

import re
from importlib.resources import files
from typing import Final

_FOLDER: Final = files("bendybus.store.sqlite")


def _read_statements() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sorted(_FOLDER.joinpath("queries").iterdir(), key=lambda each: each.name):
        parts = re.split(r"^-- name: (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            assert name not in statements, f"two statements are named {name}"
            statements[name] = text.strip()
    return statements


STATEMENTS: Final = _read_statements()
SCHEMA: Final = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
