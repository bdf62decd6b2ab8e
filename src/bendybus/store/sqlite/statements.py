"""Reads `queries.sql`: every statement by its name, so that SQL is written in one place."""

import re
from importlib.resources import files
from typing import Final


def _read_statements() -> dict[str, str]:
    text = files("bendybus.store.sqlite").joinpath("queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


STATEMENTS: Final = _read_statements()
SCHEMA: Final = files("bendybus.store.sqlite").joinpath("schema.sql").read_text(encoding="utf-8")
