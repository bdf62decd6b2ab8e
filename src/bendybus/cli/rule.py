"""`bendybus rule`: what a subscription lets in."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bendybus.cli.administered import managing
from bendybus.cli.completion import complete_subscription, complete_topic
from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_entity import print_deleted, print_json
from bendybus.client.administration import Administration
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
)

TopicOption = Annotated[
    str, typer.Option("--topic-name", help="The topic.", autocompletion=complete_topic)
]
SubscriptionOption = Annotated[
    str,
    typer.Option(
        "--subscription-name", help="The subscription.", autocompletion=complete_subscription
    ),
]
NameOption = Annotated[str, typer.Option("--name", "-n", help="The name of the rule.")]
SqlOption = Annotated[
    str | None,
    typer.Option("--filter-sql-expression", help="Lets in what it is true of: \"colour = 'red'\"."),
]
ActionOption = Annotated[
    str | None,
    typer.Option("--action-sql-expression", help="Done to each copy: \"SET sys.Label = 'red'\"."),
]
CorrelationOption = Annotated[
    list[str] | None,
    typer.Option(
        "--correlation-filter-property",
        "--correlation",
        metavar="NAME=VALUE",
        help="A property of yours that must be equal; or one of those below, in any spelling,"
        " unless user. stands in front. Repeat it.",
    ),
]


def _spelled(name: str) -> str:
    """Return what `correlation-id`, `correlation_id` and `CorrelationId` have in common."""
    return name.lower().replace("-", "").replace("_", "")


_FIELDS: Final = {
    _spelled(field.name): field.name
    for field in fields(CorrelationFilter)
    if field.name != "properties"
}
# In front of a property of the message's own, as in filters.
_OWN: Final = "user."

rule_commands = typer.Typer(
    help="Say what a subscription lets in.",
    epilog="Example: bendybus rule create --topic-name events --subscription-name audit"
    " --name red --filter-sql-expression \"colour = 'red'\"",
    no_args_is_help=True,
)


class FilterType(StrEnum):
    """What lets messages in where neither an expression nor values do."""

    TRUE = "TrueFilter"
    FALSE = "FalseFilter"


TypeOption = Annotated[
    FilterType | None, typer.Option("--filter-type", help="All messages, or none.")
]


def _naming_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every field of a message that a filter can compare."""
    own = [each for each in signature(command).parameters.values() if each.name != "equal"]
    options = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(f"--{name.replace('_', '-')}", help="Must be equal to this."),
            ],
        )
        for name in _FIELDS.values()
    ]
    command.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]  # read by `managing`
    return command


@rule_commands.command("list")
@managing
def list_rules(
    namespace: Administration,
    topic_name: TopicOption,
    subscription_name: SubscriptionOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every rule of a subscription."""
    _print(list(namespace.rules(topic_name, subscription_name)), output)


@rule_commands.command("show")
@managing
def show_rule(
    namespace: Administration,
    topic_name: TopicOption,
    subscription_name: SubscriptionOption,
    name: NameOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one rule."""
    rule = namespace.show_rule(topic_name, subscription_name, name)
    _print_one(rule, output)


@rule_commands.command("create")
@managing
@_naming_fields
def create_rule(  # noqa: PLR0913, PLR0917 - an option each
    namespace: Administration,
    topic_name: TopicOption,
    subscription_name: SubscriptionOption,
    name: NameOption,
    filter_sql_expression: SqlOption = None,
    correlation: CorrelationOption = None,
    filter_type: TypeOption = None,
    action_sql_expression: ActionOption = None,
    output: OutputOption = Output.TABLE,
    **equal: str | None,
) -> None:
    """Add a rule. Copies come from every rule that lets a message in."""
    described = (
        _filter(filter_sql_expression, _said(correlation, equal), filter_type) or TrueFilter()
    )
    action = None if action_sql_expression is None else SqlAction(action_sql_expression)
    rule = Rule(name, described, action)
    _print_one(namespace.put_rule(topic_name, subscription_name, rule, is_new=True), output)


@rule_commands.command("update")
@managing
@_naming_fields
def update_rule(  # noqa: PLR0913, PLR0917 - an option each
    namespace: Administration,
    topic_name: TopicOption,
    subscription_name: SubscriptionOption,
    name: NameOption,
    filter_sql_expression: SqlOption = None,
    correlation: CorrelationOption = None,
    filter_type: TypeOption = None,
    action_sql_expression: ActionOption = None,
    output: OutputOption = Output.TABLE,
    **equal: str | None,
) -> None:
    """Change a rule's filter or action; what is not said stays. An empty action takes it away."""
    described = _filter(filter_sql_expression, _said(correlation, equal), filter_type)
    before = namespace.show_rule(topic_name, subscription_name, name)
    action = before.action
    if action_sql_expression is not None:
        action = SqlAction(action_sql_expression) if action_sql_expression else None
    rule = Rule(name, described or before.filter, action)
    _print_one(namespace.put_rule(topic_name, subscription_name, rule, is_new=False), output)


@rule_commands.command("delete")
@managing
def delete_rule(
    namespace: Administration,
    topic_name: TopicOption,
    subscription_name: SubscriptionOption,
    name: NameOption,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a rule. A subscription without any lets nothing in."""
    namespace.delete_rule(topic_name, subscription_name, name)
    print_deleted(name, output)


def _said(values: list[str] | None, equal: Mapping[str, str | None]) -> list[str] | None:
    """Return all that must be equal, as NAME=VALUE; None if nothing was said."""
    named = [f"{name}={value}" for name, value in equal.items() if value is not None]
    return [*(values or []), *named] or None


def _filter(
    expression: str | None, values: list[str] | None, kind: FilterType | None
) -> Filter | None:
    """Return the filter that was said, at most one; None if nothing was."""
    said = [each for each in (expression, values, kind) if each is not None]
    if len(said) > 1:
        raise CommandFailed(
            "a rule has one filter: --filter-sql-expression, values that must be equal, or"
            " --filter-type"
        )
    if expression is not None:
        return SqlFilter(expression)
    if values is not None:
        return _correlation(values)
    if kind is None:
        return None
    return TrueFilter() if kind is FilterType.TRUE else FalseFilter()


def _correlation(values: list[str]) -> CorrelationFilter:
    named: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise CommandFailed(f"--correlation-filter-property {text!r} must be like colour=red")
        field = _FIELDS.get(_spelled(name))
        if field is None:
            properties[name.removeprefix(_OWN)] = value
        else:
            named[field] = value
    try:
        return CorrelationFilter(**named, properties=properties)
    except ArgumentInvalid as error:
        raise CommandFailed(f"what must be equal: {error.message}") from None


def _json(rule: Rule) -> dict[str, Any]:
    kind, filtered = _described(rule.filter)
    action = None if rule.action is None else rule.action.expression
    return {"name": rule.name, "filterType": kind, "filter": filtered, "action": action}


def _described(described: Filter) -> tuple[str, Any]:
    match described:
        case SqlFilter(expression):
            return "SqlFilter", expression
        case CorrelationFilter():
            values = {name: getattr(described, name) for name in _FIELDS.values()}
            said = {name: value for name, value in values.items() if value is not None}
            own = {
                f"{_OWN}{name}" if _spelled(name) in _FIELDS else name: str(value)
                for name, value in described.properties.items()
            }
            return "CorrelationFilter", {**said, **own}
        case TrueFilter():
            return "TrueFilter", "1=1"
        case FalseFilter():
            return "FalseFilter", "1=0"


def _print(rules: list[Rule], output: Output) -> None:
    shown = [_json(rule) for rule in rules]
    if output is Output.JSON:
        print_json(shown)
        return
    table = PlainTable("rule", "filter", "lets in", "action")
    for each in shown:
        told = each["filter"]
        if isinstance(told, dict):
            told = ", ".join(f"{name} = {value}" for name, value in told.items())
        table.add(each["name"], each["filterType"], told, each["action"] or "")
    Console().print(table)


def _print_one(rule: Rule, output: Output) -> None:
    if output is Output.JSON:
        print_json(_json(rule))
    else:
        _print([rule], output)
