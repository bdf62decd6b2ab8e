"""`bendybus version`."""

import typer

from bendybus import __version__


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
