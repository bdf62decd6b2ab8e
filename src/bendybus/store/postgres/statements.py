"""Every statement of `queries/*.sql` by its name."""

from importlib.resources import files
from typing import Final

from bendybus.store.sql.statements import read_statements

STATEMENTS: Final = read_statements(files("bendybus.store.postgres"))
