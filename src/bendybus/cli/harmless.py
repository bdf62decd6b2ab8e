"""What others wrote, as a terminal may show it.

Anybody who may send can put into a message what clears the screen, renames the window or, at some
terminals, types a command. People see such characters by their numbers; JSON has them so anyway,
and what goes on to another program stays as it is.
"""

import sys

import typer


def harmless(text: str) -> str:
    """Return a text with the numbers of characters that are not to be seen but to be obeyed."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def echo(text: str) -> None:
    """Print a text of others line by line: as it is, unless somebody sits at the terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(harmless, text.split("\n")))
    typer.echo(text)
