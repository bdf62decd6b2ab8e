"""`… authorization-rule`: keys to the namespace, to a queue or to a topic, and their renewal."""

from inspect import Parameter, Signature
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console

from bendybus.cli.administered import managing
from bendybus.cli.completion import complete_queue, complete_topic
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_entity import print_deleted, print_json
from bendybus.client.administration import Administration
from bendybus.model.access import Right
from bendybus.model.access_rules import KeyKind

NameOption = Annotated[str, typer.Option("--name", "-n", help="The name of the rule.")]
RightsOption = Annotated[
    list[Right],
    typer.Option("--rights", help="What it allows; Manage goes with both others. Repeat it."),
]
KeyOption = Annotated[KeyKind, typer.Option("--key", help="Which of the two keys.")]
ValueOption = Annotated[
    str | None,
    typer.Option("--key-value", help="A key of your own; by default one is made.", metavar="KEY"),
]

_WORD: Final = "$authorizationRules"


def access_rule_commands(word: str | None) -> typer.Typer:
    """Return the commands for the namespace, or for entities of one kind."""
    where = "a namespace" if word is None else f"one {word}"
    commands = typer.Typer(help=f"Make, show and renew keys to {where}.", no_args_is_help=True)
    keys = typer.Typer(help="Show or renew the keys of a rule.", no_args_is_help=True)
    commands.add_typer(keys, name="keys")
    commands.command("list")(_of(word, _list))
    commands.command("show")(_of(word, _show))
    commands.command("create")(_of(word, _put))
    commands.command("update")(_of(word, _put))
    commands.command("delete")(_of(word, _delete))
    keys.command("list")(_of(word, _list_keys))
    keys.command("renew")(_of(word, _renew))
    return commands


_NAMESPACE: Final = Parameter(
    "entity",
    Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        str | None,
        typer.Option(
            "--namespace-name",
            help="One that was created with `namespace create`; by default the connection's own.",
        ),
    ],
    default=None,
)


def _of(word: str | None, command: Any) -> Any:  # noqa: ANN401 - any of the commands below
    """Bind a command to the namespace, or give it the option that names an entity."""
    namespace, _, *options = Signature.from_callable(command).parameters.values()
    named = _NAMESPACE if word is None else _entity(word)

    def bound(namespace: Administration, entity: str | None = None, **said: Any) -> None:  # noqa: ANN401 - options
        level = entity if word is not None or entity is None else f"$namespaces/{entity}"
        command(namespace, level, **said)

    bound.__doc__ = command.__doc__
    bound.__signature__ = Signature(  # type: ignore[attr-defined]  # read by `managing`
        [namespace, named, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in options)]
    )
    return managing(bound)


def _entity(word: str) -> Parameter:
    complete = {"queue": complete_queue, "topic": complete_topic}[word]
    option = typer.Option(f"--{word}-name", help=f"The {word}.", autocompletion=complete)
    return Parameter("entity", Parameter.KEYWORD_ONLY, annotation=Annotated[str, option])


def _list(
    namespace: Administration, entity: str | None, output: OutputOption = Output.TABLE
) -> None:
    """Show every rule, without its keys."""
    _print(namespace.ask_json("GET", _path(entity)), output)


def _show(
    namespace: Administration,
    entity: str | None,
    name: NameOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one rule, without its keys."""
    _print(namespace.ask_json("GET", _path(entity, name)), output)


def _put(
    namespace: Administration,
    entity: str | None,
    name: NameOption,
    rights: RightsOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a rule, or change what it allows. Its keys are made once, and stay."""
    body = {"rights": [right.value for right in rights]}
    _print(namespace.ask_json("PUT", _path(entity, name), body), output)


def _delete(
    namespace: Administration,
    entity: str | None,
    name: NameOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a rule: no new token of its keys is accepted."""
    namespace.ask_json("DELETE", _path(entity, name))
    print_deleted(name, output)


def _list_keys(
    namespace: Administration,
    entity: str | None,
    name: NameOption,
    output: OutputOption = Output.JSON,
) -> None:
    """Print both keys."""
    _print_keys(namespace.ask_json("POST", f"{_path(entity, name)}/listKeys"), output)


def _renew(
    namespace: Administration,
    entity: str | None,
    name: NameOption,
    key: KeyOption,
    key_value: ValueOption = None,
    output: OutputOption = Output.JSON,
) -> None:
    """Replace one key, and print both. Links that are open live on until their token ends."""
    body = {"keyType": key.value, **({} if key_value is None else {"key": key_value})}
    _print_keys(namespace.ask_json("POST", f"{_path(entity, name)}/regenerateKeys", body), output)


def _path(entity: str | None, name: str | None = None) -> str:
    level = "" if entity is None else f"/{quote(entity, safe='/$')}"
    return f"{level}/{_WORD}" + ("" if name is None else f"/{quote(name, safe='')}")


def _print_keys(keys: Any, output: Output) -> None:  # noqa: ANN401 - JSON
    if output is Output.JSON:
        print_json(keys)
        return
    table = PlainTable("rule", "primary key", "secondary key")
    table.add(keys["keyName"], keys["primaryKey"], keys["secondaryKey"])
    Console().print(table)


def _print(rules: Any, output: Output) -> None:  # noqa: ANN401 - JSON
    if output is Output.JSON:
        print_json(rules)
        return
    table = PlainTable("rule", "rights", "created", "modified")
    for rule in rules if isinstance(rules, list) else [rules]:
        times = (rule.get("createdAt") or "", rule.get("modifiedAt") or "")
        table.add(rule["name"], ", ".join(rule["rights"]), *times)
    Console().print(table)
