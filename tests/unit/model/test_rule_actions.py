"""What the actions of rules change, and what they may not."""

from uuid import UUID

import pytest

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.message_view import SYSTEM_PROPERTIES, WRITABLE_SYSTEM_PROPERTIES
from bendybus.model.rule import SqlAction
from bendybus.model.rule_actions import Changes, compile_action
from bendybus.model.sql_values import FilterFailed
from tests.unit.model.rule_messages import FIXED_ID, Seen, fixed_id

pytestmark = pytest.mark.spec("R4")

USER = {"Color": "red", "count": 5, "ratio": 0.5, "urgent": True, "nothing": None}
SYSTEM = {"Label": "order", "MessageId": "m-1", "SequenceNumber": 9}


class Short(int):
    """A number of a wire type, which says what it can hold."""

    least = -(2**15)
    most = 2**15 - 1


class Single(float):
    """A narrower float of a wire type."""

    least = -3.4e38
    most = 3.4e38


def applied(text: str, user: dict[str, object] | None = None) -> Changes:
    view = Seen(USER if user is None else user, SYSTEM)
    return compile_action(SqlAction(text), new_id=fixed_id).apply(view)


def user_after(text: str, user: dict[str, object] | None = None) -> dict[str, object]:
    before = USER if user is None else user
    return applied(text, user).merged_user(before)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SET size = 3", {"size": 3}),
        ("SET Size = 'big'", {"Size": "big"}),
        ("SET user.size = 3.5", {"size": 3.5}),
        ("SET [my size] = TRUE", {"my size": True}),
        ('SET "say ""hi""" = 1', {'say "hi"': 1}),
        ("set color = 'blue'", {"Color": "blue"}),
        ("SET color = color + 'dish'", {"Color": "reddish"}),
        ("SET count = count + 1", {"count": 6}),
        ("SET total = count * ratio", {"total": 2.5}),
        ("SET label = sys.Label", {"label": "order"}),
        ("SET id = newid()", {"id": FIXED_ID}),
        ("SET copy = property('COLOR')", {"copy": "red"}),
        ("SET a = 1; SET b = 2", {"a": 1, "b": 2}),
        ("SET a = 1, SET b = 2", {"a": 1, "b": 2}),
        ("SET a = 1 SET b = 2;", {"a": 1, "b": 2}),
        ("SET a = 1; SET b = a + 1; SET a = b + 1", {"a": 3, "b": 2}),
        ("SET a = 1; SET A = 2", {"A": 2}),
        ("SET a = missing", {"a": None}),
        ("SET color = missing", {"Color": None}),
        ("SET a = NULL", {"a": None}),
        ("SET a = color - 1", {"a": None}),
        ("REMOVE missing", {}),
    ],
)
def test_set_writes_the_value_of_the_expression(text: str, changed: dict[str, object]) -> None:
    assert user_after(text) == USER | changed


def test_remove_takes_properties_away_whatever_their_case() -> None:
    assert user_after("REMOVE COLOR; REMOVE user.Count") == {
        "ratio": 0.5,
        "urgent": True,
        "nothing": None,
    }


def test_a_property_removed_is_missing_for_what_follows() -> None:
    changes = user_after("REMOVE color; SET copy = color; SET seen = 'x' + ratio")
    assert changes["copy"] is None
    assert changes["seen"] == "x0.5"
    assert "Color" not in changes


def test_the_last_of_set_and_remove_counts() -> None:
    assert "a" not in user_after("SET a = 1; REMOVE a")
    assert user_after("REMOVE count; SET count = 'many'")["count"] == "many"


def test_an_action_leaves_the_message_itself_alone() -> None:
    view = Seen(USER, SYSTEM)
    compile_action(SqlAction("SET color = 'x'; REMOVE count"), new_id=fixed_id).apply(view)
    assert view.user == Seen(USER).user


def test_names_that_differ_in_case_only_become_one_when_written() -> None:
    assert user_after("SET a = 3", {"A": 1, "a": 2, "b": 4}) == {"a": 3, "b": 4}


@pytest.mark.parametrize(
    ("existing", "expression", "expected"),
    [
        (5, "2.5", 2),
        (5, "3.5", 4),
        (5, "'12'", 12),
        (5, "' 12'", " 12"),
        (5, "'many'", "many"),
        (5, "'99999999999999999999'", "99999999999999999999"),
        (5, "1e300", 1e300),
        (5, "1/0.0", float("inf")),
        (5, "TRUE", 1),
        (0.5, "3", 3.0),
        (0.5, "'1.5e1'", 15.0),
        (0.5, "'x'", "x"),
        (0.5, "TRUE", 1.0),
        ("text", "12", "12"),
        ("text", "2.0", "2"),
        ("text", "TRUE", "True"),
        ("text", "newid()", str(FIXED_ID)),
        (True, "0", False),
        (True, "2.5", True),
        (True, "'FALSE'", False),
        (True, "'yes'", "yes"),
        (True, "newid()", FIXED_ID),
        (UUID(int=1), f"'{FIXED_ID}'", FIXED_ID),
        (UUID(int=1), f"'{FIXED_ID.hex}'", FIXED_ID),
        (UUID(int=1), "'x'", "x"),
        (UUID(int=1), "5", 5),
        (b"binary", "'text'", "text"),
        (5, "newid()", FIXED_ID),
        (0.5, "newid()", FIXED_ID),
        (None, "5", 5),
        (Short(1), "7", Short(7)),
        (Short(1), "40000", 40000),
        (Short(1), "'8'", Short(8)),
        (Single(1), "7", Single(7)),
        (Single(1), "1e300", 1e300),
        (Single(1), "1/0.0", float("inf")),
    ],
)
def test_a_value_takes_the_type_of_the_property_it_replaces_where_it_can(
    existing: object, expression: str, expected: object
) -> None:
    result = user_after(f"SET a = {expression}", {"a": existing})["a"]
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("name", sorted(WRITABLE_SYSTEM_PROPERTIES))
def test_a_writable_system_property_is_set_as_text(name: str) -> None:
    assert applied(f"SET sys.{name.upper()} = 'a' + count").system == {name: "a5"}
    assert applied(f"SET sys.{name} = 12").system == {name: "12"}


def test_the_subject_is_the_label() -> None:
    assert applied("SET sys.Subject = 'new'; SET copy = sys.Label").user["copy"].value == "new"


@pytest.mark.parametrize("text", ["REMOVE sys.Label", "SET sys.Label = NULL", "SET sys.Label = x"])
def test_a_system_property_can_be_taken_away(text: str) -> None:
    changes = applied(text + "; SET copy = sys.Label")
    assert changes.system == {"Label": None}
    assert changes.user["copy"].value is None


@pytest.mark.parametrize("verb", ["SET sys.{} = 1", "REMOVE sys.{}"])
@pytest.mark.parametrize("name", sorted(SYSTEM_PROPERTIES - WRITABLE_SYSTEM_PROPERTIES))
def test_a_read_only_system_property_is_refused_when_the_rule_is_made(verb: str, name: str) -> None:
    with pytest.raises(ArgumentInvalid, match=f"the system property {name} is read-only"):
        applied(verb.format(name.lower()))


@pytest.mark.parametrize("text", ["SET sys.NoSuch = 1", "REMOVE sys.NoSuch"])
def test_a_system_property_that_does_not_exist_cannot_be_written(text: str) -> None:
    with pytest.raises(ArgumentInvalid, match="there is no system property NoSuch"):
        applied(text)


def test_a_message_keeps_an_id() -> None:
    with pytest.raises(ArgumentInvalid, match=r"sys.MessageId cannot be removed"):
        applied("REMOVE sys.MessageId")
    with pytest.raises(FilterFailed, match=r"sys.MessageId cannot be without a value"):
        applied("SET sys.MessageId = missing")


@pytest.mark.parametrize(
    "name", ["MessageId", "SessionId", "PartitionKey", "ViaPartitionKey", "ReplyToSessionId"]
)
def test_ids_and_keys_stay_within_their_length(name: str) -> None:
    user: dict[str, object] = {"long": "x" * 128}
    assert applied(f"SET sys.{name} = long", user).system == {name: "x" * 128}
    with pytest.raises(FilterFailed, match=f"sys.{name} would have more than 128 characters"):
        applied(f"SET sys.{name} = long + 'x'", user)
    assert applied("SET sys.To = long + 'x'", user).system == {"To": "x" * 129}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SET a = sys.NoSuch", "there is no system property NoSuch"),
        ("SET a = count / 0", "divided by zero"),
        ("SET a = count + 9223372036854775807", "does not fit 64 bits"),
        ("SET a = 'xxxxxxxx'; " + "SET a = a + a; " * 31, "longer than 32768"),
    ],
)
def test_an_action_that_cannot_be_evaluated_fails_for_the_message(text: str, reason: str) -> None:
    with pytest.raises(FilterFailed, match=reason):
        applied(text)


def test_parameters_come_beside_the_text() -> None:
    action = SqlAction("SET a = @value; SET sys.Label = @Name", {"@value": 1, "name": "n"})
    changes = compile_action(action, new_id=fixed_id).apply(Seen())
    assert changes.user["a"].value == 1
    assert changes.system == {"Label": "n"}
