"""`bendybus queue`, `topic` and `subscription`: list, show, create, update, delete.

They differ in what can be said of each alone, so their commands are made from the table of that.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

import typer

from bendybus.atom.properties import Kind
from bendybus.cli.access_rule import access_rule_commands
from bendybus.cli.administered import managing
from bendybus.cli.completion import complete_queue, complete_subscription, complete_topic
from bendybus.cli.confirmed import confirm_deletion
from bendybus.cli.entity_settings import Setting, properties_of, settings_of
from bendybus.cli.options import Output, OutputOption, YesOption
from bendybus.cli.shown_entity import print_deleted, print_entities, print_entity
from bendybus.client.administration import Administration

Command = Callable[..., None]

WORDS: Final = {Kind.QUEUE: "queue", Kind.TOPIC: "topic", Kind.SUBSCRIPTION: "subscription"}
_EXAMPLES: Final = {
    Kind.QUEUE: "bendybus queue create --name orders --enable-partitioning true",
    Kind.TOPIC: "bendybus topic create --name events --default-message-time-to-live 7d",
    Kind.SUBSCRIPTION: "bendybus subscription create --topic-name events --name audit",
}


def entity_commands(kind: Kind) -> typer.Typer:
    """Return the commands for one kind of entity."""
    word = WORDS[kind]
    commands = typer.Typer(
        help=f"Make, show, change and delete {word}s.",
        epilog=f"Example: {_EXAMPLES[kind]}",
        no_args_is_help=True,
    )
    named = _named(kind)
    made: list[tuple[str, Command, str, Sequence[Parameter]]] = [
        ("list", _list(kind), f"Show every {word} and what it holds.", [*named[:-1], _OUTPUT]),
        ("show", _show(kind), f"Show all of one {word}.", [*named, _OUTPUT]),
        (
            "create",
            _create(kind),
            f"Make a {word}, and show it. What is not said gets the service's default.",
            [*named, *_said(settings_of(kind, is_new=True)), _OUTPUT],
        ),
        (
            "update",
            _update(kind),
            f"Change what is said of a {word}, leave the rest. Open links see it at once.",
            [*named, *_said(settings_of(kind, is_new=False)), _OUTPUT],
        ),
        (
            "delete",
            _delete(kind),
            f"Delete a {word} with all that it holds.",
            [*named, _YES, _OUTPUT],
        ),
    ]
    for name, command, text, parameters in made:
        command.__signature__ = Signature([_NAMESPACE, *parameters])  # type: ignore[attr-defined]  # read by `managing`
        commands.command(name, help=text)(managing(command))
    if kind is not Kind.SUBSCRIPTION:
        commands.add_typer(access_rule_commands(word), name="authorization-rule")
    return commands


def _list(kind: Kind) -> Command:
    def command(namespace: Administration, output: Output, topic_name: str | None = None) -> None:
        print_entities(namespace.list(kind, topic_name), kind, output)

    return command


def _show(kind: Kind) -> Command:
    def command(
        namespace: Administration, name: str, output: Output, topic_name: str | None = None
    ) -> None:
        print_entity(namespace.show(kind, name, topic_name), output)

    return command


def _create(kind: Kind) -> Command:
    settings = settings_of(kind, is_new=True)

    def command(
        namespace: Administration,
        name: str,
        output: Output,
        topic_name: str | None = None,
        **said: Any,  # noqa: ANN401 - of the settings
    ) -> None:
        properties = properties_of(settings, said)
        print_entity(namespace.create(kind, name, properties, topic=topic_name), output)

    return command


def _update(kind: Kind) -> Command:
    settings = settings_of(kind, is_new=False)

    def command(
        namespace: Administration,
        name: str,
        output: Output,
        topic_name: str | None = None,
        **said: Any,  # noqa: ANN401 - of the settings
    ) -> None:
        changes = properties_of(settings, said)
        print_entity(namespace.update(kind, name, changes, topic=topic_name), output)

    return command


def _delete(kind: Kind) -> Command:
    def command(
        namespace: Administration,
        name: str,
        *,
        yes: bool,
        output: Output,
        topic_name: str | None = None,
    ) -> None:
        shown = namespace.show(kind, name, topic_name)
        confirm_deletion(WORDS[kind], shown, is_confirmed=yes)
        namespace.delete(shown.name, topic_name)
        print_deleted(shown.name, output)

    return command


def _keyword(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _named(kind: Kind) -> list[Parameter]:
    """Return the options that name an entity, its own name last."""
    topic = typer.Option("--topic-name", help="The topic.", autocompletion=complete_topic)
    complete = {
        Kind.QUEUE: complete_queue,
        Kind.TOPIC: complete_topic,
        Kind.SUBSCRIPTION: complete_subscription,
    }
    name = typer.Option(
        "--name", "-n", help=f"The name of the {WORDS[kind]}.", autocompletion=complete[kind]
    )
    parents = [_keyword("topic_name", Annotated[str, topic])]
    return [
        *(parents if kind is Kind.SUBSCRIPTION else []),
        _keyword("name", Annotated[str, name]),
    ]


def _said(settings: list[Setting]) -> list[Parameter]:
    return [
        _keyword(
            setting.parameter,
            Annotated[setting.type | None, typer.Option(setting.option, help=setting.help)],
            None,
        )
        for setting in settings
    ]


_NAMESPACE: Final = Parameter("namespace", Parameter.POSITIONAL_ONLY)
_OUTPUT: Final = _keyword("output", OutputOption, Output.TABLE)
_YES: Final = _keyword("yes", YesOption, False)

queue_commands = entity_commands(Kind.QUEUE)
topic_commands = entity_commands(Kind.TOPIC)
subscription_commands = entity_commands(Kind.SUBSCRIPTION)
