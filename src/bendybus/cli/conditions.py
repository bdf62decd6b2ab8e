"""Conditions and edits in the language of rules, checked before anything is asked for."""

from uuid import uuid4

from bendybus.cli.failure import CommandFailed
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.filters import CompiledFilter
from bendybus.model.rule_actions import CompiledAction
from bendybus.model.selection import condition_of, edit_of


def compiled_condition(text: str | None) -> CompiledFilter | None:
    """Compile what `--filter` says, if it says anything."""
    try:
        return None if text is None else condition_of(text, uuid4)
    except ArgumentInvalid as error:
        raise CommandFailed(f"--filter {text!r}: {error.message}; see docs/filters.md") from None


def compiled_edit(text: str | None) -> CompiledAction | None:
    """Compile what `--set` and `--remove` say together, if they say anything."""
    try:
        return None if text is None else edit_of(text, uuid4)
    except ArgumentInvalid as error:
        raise CommandFailed(
            f"--set and --remove make {text!r}: {error.message}; see docs/filters.md"
        ) from None
