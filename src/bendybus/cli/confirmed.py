"""Asking before something is lost."""

import sys

import typer

from bendybus.cli.failure import CommandFailed
from bendybus.client.administration import Described


def confirm(what: str, *, is_confirmed: bool) -> None:
    """Ask whether something may be deleted. Programs, whom nobody can ask, say so with --yes."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"to delete {what}, say --yes")
    if not typer.confirm(f"Delete {what}?"):
        raise typer.Exit(1)


def confirm_deletion(word: str, shown: Described, *, is_confirmed: bool) -> None:
    """Ask whether an entity may go with what it holds."""
    count = shown.facts.message_count
    held = f", which holds {count:,} messages" if count else ""
    confirm(f"the {word} '{shown.name}'{held}", is_confirmed=is_confirmed)
