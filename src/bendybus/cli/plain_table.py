"""Tables of what others wrote."""

from rich.table import Table
from rich.text import Text

from bendybus.cli.harmless import harmless


class PlainTable(Table):
    """A table in which nothing is obeyed, nor taken for markup, as `[red]` in a filter would be."""

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.add_row(*(Text(harmless(cell)) for cell in cells))
