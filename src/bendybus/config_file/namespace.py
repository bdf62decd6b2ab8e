"""What a configuration file means: namespaces, and settings of the broker.

UserConfig:
  Namespaces:            the emulator's file has one; of several the first is the default
  - Name, Queues: [{Name, Properties}], Topics: [{Name, Properties, Subscriptions: […]}]
  Logging:               the emulator's; checked and otherwise ignored
Broker:                  ours: DataFolder, Stores, Host, AmqpPort, HttpPort, KeyFile
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bendybus.config_file.access import read_access_rules
from bendybus.config_file.document import Node
from bendybus.config_file.properties import (
    CORRELATION_KEYS,
    QUEUE_KEYS,
    SUBSCRIPTION_KEYS,
    TOPIC_KEYS,
    Key,
    checked,
    make,
)
from bendybus.config_file.section import Section, Value
from bendybus.config_file.tier import read_tier
from bendybus.config_file.token_issuer import read_token_issuer
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
    name_key,
)
from bendybus.model.hosts import names_nothing
from bendybus.model.namespace import DEFAULT_NAMESPACE_NAME, Namespace
from bendybus.model.rule import CorrelationFilter, Filter, Rule, SqlAction, SqlFilter
from bendybus.model.rule_check import checked_action, checked_filter
from bendybus.model.suggestion import suggest
from bendybus.model.topic_queues import check_topic_quota

LOGGING_TYPES: Final = ("File", "Console", "File,Console")

_NAME: Final = {"Name": Key("name", Value.text)}
_SQL: Final = {"SqlExpression": Key("expression", Value.text)}
# Where a queue may refer to another entity: the refusal of a wrong one must find its key again.
_FORWARDS: Final = {
    "ForwardTo": Key("forward_to", Value.text_or_none),
    "ForwardDeadLetteredMessagesTo": Key("forward_dead_lettered_messages_to", Value.text_or_none),
}


@dataclass(frozen=True, slots=True)
class _Forward:
    """A reference to another entity, kept until all names are known."""

    value: Value
    target: str


def read_namespaces(user_config: Value | None, folder: Path) -> list[Namespace]:
    """Read `UserConfig`, the default namespace first; without one, that is empty.

    Paths count from the folder.
    """
    if user_config is None:
        return [Namespace()]
    section = user_config.section(("Namespaces", "Logging"))
    _check_logging(section.get("Logging"))
    values = list(section.need("Namespaces").items())
    if not values:
        raise section.need("Namespaces").refuse("must have at least one namespace")
    if len(values) > 1:
        _check_distinct(values)
        _check_reachable(values[1:])
    return [_read_one(value, folder) for value in values]


def _read_one(value: Value, folder: Path) -> Namespace:
    section = value.section(
        (
            *("Name", "Queues", "Topics", "AuthorizationRules", "TokenIssuer"),
            *("Tier", "PremiumPartitioning", "NamespaceFragments"),
        )
    )
    tier = read_tier(section)
    name, rules, issuer = map(section.get, ("Name", "AuthorizationRules", "TokenIssuer"))
    queue_values, topic_values = list(section.items("Queues")), list(section.items("Topics"))
    queues = tuple(_read_queue(each) for each in queue_values)
    topics = tuple(_read_topic(each) for each in topic_values)
    _check_distinct([*queue_values, *topic_values])
    names = [*(queue.name for queue in queues), *(topic.name for topic in topics)]
    _check_forwards(_forwards(queue_values, topic_values), names)
    return checked(
        section,
        _NAME,
        lambda: Namespace(
            DEFAULT_NAMESPACE_NAME if name is None else name.text(),
            queues,
            topics,
            () if rules is None else read_access_rules(rules),
            None if issuer is None else read_token_issuer(issuer, folder),
            tier,
        ),
    )


def _read_queue(value: Value) -> Queue:
    section = value.section(("Name", "Properties"))
    name, properties = section.need("Name").text(), section.get("Properties")
    made = (
        QueueProperties() if properties is None else make(properties, QUEUE_KEYS, QueueProperties)
    )
    # A queue that forwards to itself is found only now, with its name; the key is one level down.
    inner = section if properties is None else _with_values_of(section, properties)
    return checked(inner, {**_NAME, **_FORWARDS}, lambda: Queue(name, made))


def _read_topic(value: Value) -> Topic:
    section = value.section(("Name", "Properties", "Subscriptions"))
    name, properties = section.need("Name").text(), section.get("Properties")
    made = (
        TopicProperties() if properties is None else make(properties, TOPIC_KEYS, TopicProperties)
    )
    subscription_values = list(section.items("Subscriptions"))
    subscriptions = tuple(_read_subscription(each) for each in subscription_values)
    _check_distinct(subscription_values)
    topic = checked(section, _NAME, lambda: Topic(name, made, subscriptions))
    checked(section, _NAME, lambda: check_topic_quota(subscriptions))
    return topic


def _read_subscription(value: Value) -> Subscription:
    section = value.section(("Name", "Properties", "Rules"))
    name, properties = section.need("Name").text(), section.get("Properties")
    made = (
        SubscriptionProperties()
        if properties is None
        else make(properties, SUBSCRIPTION_KEYS, SubscriptionProperties)
    )
    rule_values = list(section.items("Rules"))
    rules = tuple(_read_rule(each) for each in rule_values) or (Rule(),)
    _check_distinct(rule_values)
    return checked(section, _NAME, lambda: Subscription(name, made, rules))


def _read_rule(value: Value) -> Rule:
    section = value.section(("Name", "Properties"))
    name = section.need("Name").text()
    properties = section.need("Properties").section(
        ("FilterType", "CorrelationFilter", "SqlFilter", "Action")
    )
    action = properties.get("Action")
    made = None if action is None else make(action, _SQL, _checked_action)
    return checked(section, _NAME, lambda: Rule(name, _read_filter(properties), made))


def _read_filter(properties: Section) -> Filter:
    kind = properties.need("FilterType")
    match kind.text():
        case "Sql":
            _refuse_other(properties, "CorrelationFilter")
            return make(properties.need("SqlFilter"), _SQL, _checked_filter)
        case "Correlation":
            _refuse_other(properties, "SqlFilter")
            return make(properties.need("CorrelationFilter"), CORRELATION_KEYS, CorrelationFilter)
        case other:
            hint = suggest(other, ("Correlation", "Sql"))
            raise kind.refuse(f"{other!r} is not a type of filter; {hint}")


def _checked_filter(expression: str = "") -> SqlFilter:
    return checked_filter(SqlFilter(expression))


def _checked_action(expression: str = "") -> SqlAction:
    return checked_action(SqlAction(expression))


def _refuse_other(properties: Section, key: str) -> None:
    other = properties.get(key)
    if other is not None:
        raise other.refuse("does not belong to this FilterType; remove it or change the type")


def _check_logging(value: Value | None) -> None:
    if value is None:
        return
    kind = value.section(("Type",)).get("Type")
    if kind is not None and kind.text().replace(" ", "") not in LOGGING_TYPES:
        raise kind.refuse(f"{kind.text()!r} is not a type; {suggest(kind.text(), LOGGING_TYPES)}")


def _check_distinct(values: Iterable[Value]) -> None:
    seen: dict[str, Value] = {}
    for value in values:
        name = value.section(known=None).need("Name")
        first = seen.setdefault(name_key(name.text()), name)
        if first is not name:
            raise name.refuse(
                f"the name {name.text()!r} is taken on line {first.node.place.line};"
                " names are compared without case"
            )


def _check_reachable(others: Iterable[Value]) -> None:
    """Refuse a namespace that no client could name, because its name means the first one."""
    for value in others:
        name = value.section(known=None).need("Name")
        if names_nothing(name.text()):
            raise name.refuse(
                f"clients that connect to {name.text()!r} are in the first namespace; choose"
                " another name, or put this one first"
            )


def _forwards(queues: Iterable[Value], topics: Iterable[Value]) -> Iterable[_Forward]:
    subscriptions = (
        each for topic in topics for each in topic.section(known=None).items("Subscriptions")
    )
    for value in (*queues, *subscriptions):
        properties = value.section(known=None).get("Properties")
        if properties is None:
            continue
        for key, each in properties.section(known=None).values.items():
            target = each.text_or_none() if key in _FORWARDS else None
            if target is not None:
                yield _Forward(each, target)


def _check_forwards(forwards: Iterable[_Forward], names: Iterable[str]) -> None:
    known = {name_key(name): name for name in names}
    for forward in forwards:
        if name_key(forward.target) not in known:
            hint = suggest(forward.target, known.values())
            raise forward.value.refuse(f"there is no queue or topic {forward.target!r}; {hint}")


def _with_values_of(section: Section, inner: Value) -> Section:
    values: Mapping[str, Value] = inner.section(known=None).values
    return Section(section.whole, {**values, **section.values})


def root_section(node: Node) -> Section:
    """Check the outermost keys."""
    return Value(node, "").section(("UserConfig", "Broker", "$schema"))
