"""The statements of this engine by their names, and the texts that make its tables."""

from importlib.resources import files
from typing import Final

from bendybus.store.sql.statements import read_statements

_FOLDER: Final = files("bendybus.store.sqlite")

STATEMENTS: Final = read_statements(_FOLDER)
SCHEMA: Final = _FOLDER.joinpath("schema.sql").read_text(encoding="utf-8")
# What a connection has beside the tables, for itself alone.
ARRIVING: Final = _FOLDER.joinpath("arriving.sql").read_text(encoding="utf-8")
