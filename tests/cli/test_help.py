"""`--help` of every command: whole on a narrow terminal, and saying what each option is for."""

from collections.abc import Iterator
from typing import Any

import typer

from bendybus.cli import app

# What prints for people, a file, or one word.
WITHOUT_JSON = {"serve", "cert", "version", "namespace exists"}
WITHOUT_JSON |= {"profile add", "profile use", "profile remove"}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every command below a group, with the words that lead to it."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, (*words, name))
        else:
            yield (*words, name), found


ALL = {" ".join(words): found for words, found in commands(typer.main.get_command(app))}


def test_every_option_can_be_read_on_a_narrow_terminal() -> None:
    for name, command in ALL.items():
        text = command.get_help(typer.Context(command, info_name=name, terminal_width=80))
        assert max(map(len, text.splitlines())) <= 80, name
        for option in command.params:
            assert option.param_type_name == "argument" or option.opts[0] in text, name
            assert option.help, f"{option.name} of {name} says what it is for"
        assert command.help, f"{name} says what it does"


def test_what_prints_something_prints_it_for_programs_too() -> None:
    without = {
        name
        for name, command in ALL.items()
        if "--output" not in [option for each in command.params for option in each.opts]
    }
    assert {name for name in without if not name.startswith("pipeline ")} == WITHOUT_JSON
