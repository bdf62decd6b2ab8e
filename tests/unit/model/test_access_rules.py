"""The access rules of one level: which can be, which keys they get, and what a file may say."""

from dataclasses import replace
from itertools import count

import pytest

from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import (
    KEY_LENGTH_MAX,
    KEY_LENGTH_MIN,
    NAME_LENGTH_MAX,
    RULES_MAX,
    KeyKind,
    check_access_rule,
    check_access_rules,
    completed,
    declared,
    merged_with_declared,
    rule_named,
    with_renewed_key,
)
from bendybus.model.entity import Queue, QueueProperties, TopicProperties
from bendybus.model.errors import (
    ArgumentInvalid,
    EntityNotFound,
    QuotaExceeded,
)
from bendybus.model.ids import Instant

SEND = frozenset({Right.SEND})
KEY = "0123456789abcdef"
NOON, LATER = Instant(1000), Instant(2000)
SENDER = AccessRule("sender", KEY, SEND, "the second key 2".replace(" ", "-"))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(replace(SENDER, name=""), "is not a name", id="no name"),
        pytest.param(replace(SENDER, name="a b"), "is not a name", id="a space"),
        pytest.param(replace(SENDER, name="a&skn=b"), "is not a name", id="a parameter"),
        pytest.param(
            replace(SENDER, name="n" * (NAME_LENGTH_MAX + 1)), "is not a name", id="a long name"
        ),
        pytest.param(replace(SENDER, rights=frozenset()), "gives no right", id="no right"),
        pytest.param(
            replace(SENDER, rights=frozenset({Right.MANAGE})), "together with", id="manage alone"
        ),
        pytest.param(
            replace(SENDER, rights=frozenset({Right.MANAGE, Right.SEND})),
            "together with",
            id="manage without listen",
        ),
        pytest.param(replace(SENDER, primary_key=KEY[1:]), "between 16 and 256", id="short"),
        pytest.param(replace(SENDER, secondary_key=""), "between 16 and 256", id="empty"),
        pytest.param(
            replace(SENDER, primary_key="k" * (KEY_LENGTH_MAX + 1)), "between 16", id="long"
        ),
        pytest.param(replace(SENDER, primary_key=f"{KEY};x"), "';'", id="a semicolon"),
        pytest.param(replace(SENDER, primary_key=f"{KEY} x"), "spaces", id="space in the key"),
        pytest.param(replace(SENDER, secondary_key=f"{KEY}\x00x"), "control", id="control"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_without_showing_a_key(
    rule: AccessRule, text: str
) -> None:
    with pytest.raises(ArgumentInvalid, match=text) as refused:
        check_access_rule(rule)
    assert KEY[1:] not in refused.value.message
    assert refused.value.argument == "authorization_rules"


def test_a_key_of_the_least_length_will_do_and_so_will_none() -> None:
    check_access_rule(replace(SENDER, primary_key="k" * KEY_LENGTH_MIN, secondary_key=None))
    check_access_rule(replace(SENDER, rights=frozenset(Right)))


@pytest.mark.spec("R1.5")
@pytest.mark.parametrize("properties", [QueueProperties, TopicProperties])
def test_an_entity_can_have_twelve_rules_and_not_one_more(
    properties: type[QueueProperties] | type[TopicProperties],
) -> None:
    rules = tuple(replace(SENDER, name=f"rule-{number}") for number in range(RULES_MAX + 1))
    assert len(properties(authorization_rules=rules[:-1]).authorization_rules) == 12
    with pytest.raises(QuotaExceeded, match="at most 12 authorization rules, not 13"):
        properties(authorization_rules=rules)


def test_two_rules_of_one_level_cannot_share_a_name_but_for_its_case() -> None:
    check_access_rules((SENDER, replace(SENDER, name="Sender")))
    with pytest.raises(ArgumentInvalid, match="two authorization rules are named 'sender'"):
        check_access_rules((SENDER, SENDER))


def test_keys_are_shown_by_nothing_that_holds_a_rule() -> None:
    queue = Queue("orders", QueueProperties(authorization_rules=declared([SENDER])))
    for shown in (repr(queue), str(queue), f"{SENDER}", repr(KeyKind.PRIMARY)):
        assert KEY not in shown
        assert str(SENDER.secondary_key) not in shown


def test_keys_that_are_not_given_are_made_once() -> None:
    numbers = count(1)
    wish = AccessRule("sender", None, SEND)

    [made] = completed([wish], (), make_key=lambda: f"made-key-number-{next(numbers)}", now=NOON)
    [again] = completed([wish], [made], make_key=lambda: "another", now=LATER)

    assert made.keys == again.keys == ("made-key-number-1", "made-key-number-2")
    assert (made.created_at, made.modified_at) == (NOON, NOON)
    assert (again.created_at, again.modified_at) == (NOON, NOON)


def test_a_rule_that_changes_keeps_its_beginning() -> None:
    [made] = completed([SENDER], (), make_key=str, now=NOON)
    wish = replace(SENDER, rights=frozenset({Right.LISTEN}))

    [changed] = completed([wish], [made], make_key=str, now=LATER)

    assert (changed.created_at, changed.modified_at) == (NOON, LATER)
    assert changed.keys == SENDER.keys


@pytest.mark.parametrize("kind", KeyKind)
def test_one_key_is_renewed_and_the_other_stays(kind: KeyKind) -> None:
    renewed = with_renewed_key(SENDER, kind, "a new key", LATER)
    expected = {
        KeyKind.PRIMARY: ("a new key", SENDER.secondary_key),
        KeyKind.SECONDARY: (KEY, "a new key"),
    }
    assert renewed.keys == expected[kind]
    assert renewed.modified_at == LATER


def test_a_rule_is_found_by_its_very_name() -> None:
    assert rule_named([SENDER], "sender") is SENDER
    with pytest.raises(EntityNotFound, match="no authorization rule 'Sender'"):
        rule_named([SENDER], "Sender")


def test_a_key_without_text_signs_for_nobody() -> None:
    assert AccessRule("r", "", SEND, "").keys == ()
    assert AccessRule("r", None, SEND).keys == ()


# What a configuration says


def test_a_key_that_was_renewed_is_not_brought_back_by_the_same_configuration() -> None:
    said = declared([SENDER])
    renewed = with_renewed_key(said[0], KeyKind.PRIMARY, "renewed", LATER)

    assert merged_with_declared([renewed], said)[0].keys[0] == "renewed"


@pytest.mark.parametrize(
    "said",
    [
        replace(SENDER, primary_key="another key of ours"),
        replace(SENDER, secondary_key=None),
        replace(SENDER, rights=frozenset({Right.LISTEN})),
    ],
)
def test_what_the_configuration_says_differently_counts(said: AccessRule) -> None:
    before = declared([SENDER])
    after = declared([said])
    assert merged_with_declared(before, after) == after


def test_what_the_configuration_no_longer_says_goes_and_what_others_made_stays() -> None:
    [gone] = declared([SENDER])
    theirs = replace(SENDER, name="theirs")
    [new] = declared([replace(SENDER, name="new")])

    assert merged_with_declared([gone, theirs], [new]) == (theirs, new)


def test_what_the_configuration_says_of_a_rule_that_others_made_counts() -> None:
    [said] = declared([replace(SENDER, rights=frozenset({Right.LISTEN}))])
    assert merged_with_declared([SENDER], [said]) == (said,)
