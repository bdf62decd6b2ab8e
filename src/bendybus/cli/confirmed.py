"""Asking before something is lost."""

import sys

import typer

from bendybus.cli.failure import CommandFailed
from bendybus.client.administration import Described


def confirm_deletion(word: str, shown: Described, *, is_confirmed: bool) -> None:
    """Ask whether an entity may go with what it holds. Programs say so with --yes."""
    if is_confirmed:
        return
    held = (
        f", which holds {shown.facts.message_count:,} messages" if shown.facts.message_count else ""
    )
    if not sys.stdin.isatty():
        raise CommandFailed(f"the {word} '{shown.name}'{held}, is deleted only with --yes")
    if not typer.confirm(f"Delete the {word} '{shown.name}'{held}?"):
        raise typer.Exit(1)
