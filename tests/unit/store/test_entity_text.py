"""What stores write down of an entity is read as the same entity."""

from hypothesis import given

from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.rule import Rule
from bendybus.model.time_values import Moment, Span
from bendybus.store.entity_text import (
    entity_from_text,
    entity_to_text,
    kind_of_entity,
    rules_from_text,
    rules_to_text,
)
from tests.unit.atom.test_descriptions import QUEUES, SUBSCRIPTIONS, TOPICS
from tests.unit.atom.test_rules import RULES


@given(QUEUES | TOPICS | SUBSCRIPTIONS)
def test_an_entity_is_read_as_it_was_written(entity: Queue | Topic | Subscription) -> None:
    text = entity_to_text(entity)
    assert entity_from_text(kind_of_entity(entity), entity.name, text) == entity


@given(RULES)
def test_rules_are_read_as_they_were_written(rule: Rule) -> None:
    [back] = rules_from_text(rules_to_text([rule]))
    assert back == rule
    for before, after in zip(_values(rule), _values(back), strict=True):
        assert type(before) is type(after)
        if isinstance(before, Moment | Span):
            assert isinstance(after, Moment | Span)
            assert before.text == after.text


def _values(rule: Rule) -> list[object]:
    held = [getattr(rule.filter, name, {}) for name in ("parameters", "properties")]
    if rule.action is not None:
        held.append(rule.action.parameters)
    return [value for pairs in held for value in pairs.values()]
