"""Which sends and settlements may belong to one transaction (R5.1 to R5.3, R5.6)."""

from dataclasses import replace

import pytest

from bendybus.model.errors import InvalidOperation, QuotaExceeded
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for
from bendybus.model.transaction import Destination, Home, TransactionScope, Via

ORDERS = Destination("orders", 1, False, False, False)
PARTS = Destination("parts", 16, True, False, False)
FRAGMENTS = 16


def keyed(key: str) -> Message:
    return Message(b"", partition_key=key)


def scope(messages_max: int = 100) -> TransactionScope:
    return TransactionScope(messages_max)


def two_keys_of_one_fragment() -> tuple[str, str]:
    first = "key 0"
    wanted = fragment_for(first, FRAGMENTS)
    return first, next(
        key
        for key in (f"key {number}" for number in range(1, 1000))
        if fragment_for(key, FRAGMENTS) == wanted
    )


@pytest.mark.spec("R5.1")
@pytest.mark.parametrize(
    "message",
    [Message(b"", partition_key="k"), Message(b"", session_id="k")],
    ids=["partition key", "session id"],
)
def test_a_key_leads_to_its_fragment_of_a_partitioned_entity(message: Message) -> None:
    assert scope().join_send(PARTS, [message]) == Home("parts", fragment_for("k", FRAGMENTS))


@pytest.mark.spec("R5.1")
def test_the_id_is_a_key_only_with_duplicate_detection() -> None:
    message = Message(b"", message_id="m")
    with pytest.raises(InvalidOperation, match="must have a SessionId or a PartitionKey"):
        scope().join_send(PARTS, [message])
    detecting = replace(PARTS, has_duplicate_detection=True)
    assert scope().join_send(detecting, [message]).fragment == fragment_for("m", FRAGMENTS)
    with pytest.raises(InvalidOperation, match="a SessionId, a PartitionKey or a MessageId"):
        scope().join_send(detecting, [Message(b"")])


@pytest.mark.spec("R5.1")
def test_a_second_key_is_refused_even_if_its_fragment_is_the_same() -> None:
    first, second = map(keyed, two_keys_of_one_fragment())
    transaction = scope()
    with pytest.raises(InvalidOperation, match="must have one key"):
        transaction.join_send(PARTS, [first, second])
    transaction.join_send(PARTS, [first])
    with pytest.raises(InvalidOperation, match="must have one key"):
        transaction.join_send(PARTS, [second])


@pytest.mark.spec("R5.1")
def test_each_partitioned_entity_has_a_key_of_its_own() -> None:
    transaction = scope()
    transaction.join_send(PARTS, [keyed("a")])
    events = replace(PARTS, name="events")
    assert transaction.join_send(events, [keyed("b")]).entity == "events"


@pytest.mark.spec("R5.2")
@pytest.mark.parametrize("to", [ORDERS, PARTS], ids=["conventional", "partitioned"])
def test_a_session_entity_wants_a_session_id_and_no_other_key(to: Destination) -> None:
    sessions = replace(to, requires_session=True)
    with pytest.raises(InvalidOperation, match="must have a SessionId"):
        scope().join_send(sessions, [keyed("k")])
    with pytest.raises(InvalidOperation, match="differs from its SessionId"):
        scope().join_send(sessions, [Message(b"", session_id="s", partition_key="k")])
    both = Message(b"", session_id="s", partition_key="s")
    assert scope().join_send(sessions, [both]).entity == to.name


@pytest.mark.spec("R5.3")
def test_several_sessions_go_together_on_a_conventional_entity_only() -> None:
    messages = [Message(b"", session_id=each) for each in ("a", "b")]
    assert scope().join_send(replace(ORDERS, requires_session=True), messages).fragment == 0
    with pytest.raises(InvalidOperation):
        scope().join_send(replace(PARTS, requires_session=True), messages)


@pytest.mark.spec("R5.6")
def test_the_first_entity_is_the_home() -> None:
    transaction = scope()
    assert transaction.home is None
    transaction.join_send(ORDERS, [Message(b"")])
    transaction.join_send(PARTS, [keyed("k")])
    assert transaction.home == Home("orders", FragmentIndex(0))


@pytest.mark.spec("R5.6")
def test_settlements_are_of_the_home_alone() -> None:
    transaction = scope()
    home = Home("parts", FragmentIndex(3))
    transaction.join_settlement(home, 1)
    transaction.join_settlement(home, 1)
    with pytest.raises(InvalidOperation, match="message of fragment 4"):
        transaction.join_settlement(Home("parts", FragmentIndex(4)), 1)
    with pytest.raises(InvalidOperation, match="messages of 'orders'"):
        transaction.join_settlement(Home("orders", FragmentIndex(3)), 1)
    assert transaction.home == home


def test_sends_and_settlements_are_counted_together() -> None:
    transaction = scope(3)
    transaction.join_settlement(Home("orders", FragmentIndex(0)), 2)
    with pytest.raises(QuotaExceeded, match="at most 3 messages; this one would have 4"):
        transaction.join_send(ORDERS, [Message(b""), Message(b"")])
    transaction.join_send(ORDERS, [Message(b"")])
    with pytest.raises(QuotaExceeded):
        transaction.join_settlement(Home("orders", FragmentIndex(0)), 1)


def test_what_is_refused_leaves_no_trace() -> None:
    transaction = scope(1)
    with pytest.raises(QuotaExceeded):
        transaction.join_send(PARTS, [keyed("a"), keyed("a")])
    assert transaction.home is None
    assert transaction.join_send(PARTS, [keyed("b")]).fragment == fragment_for("b", FRAGMENTS)


@pytest.mark.spec("R5.6")
def test_the_entity_that_a_client_sends_by_way_of_is_the_home() -> None:
    transaction = scope()
    transaction.join_send(PARTS, [keyed("k")], Via(ORDERS, None))
    assert transaction.home == Home("orders", FragmentIndex(0))
    with pytest.raises(InvalidOperation, match="by way of 'parts'"):
        transaction.join_send(ORDERS, [Message(b"")], Via(PARTS, "k"))


@pytest.mark.spec("R5.1")
def test_a_partitioned_entity_in_between_wants_one_key_of_its_own() -> None:
    transaction = scope()
    with pytest.raises(InvalidOperation, match="TransactionPartitionKey"):
        transaction.join_send(ORDERS, [Message(b"")], Via(PARTS, None))
    transaction.join_send(ORDERS, [Message(b"")], Via(PARTS, "key 0"))
    assert transaction.home == Home("parts", fragment_for("key 0", FRAGMENTS))
    # The home is known now, so that it need not be said again, but nothing else may be said.
    transaction.join_send(ORDERS, [Message(b"")], Via(PARTS, None))
    other = next(
        key
        for key in map(str, range(100))
        if fragment_for(key, FRAGMENTS) != fragment_for("key 0", FRAGMENTS)
    )
    with pytest.raises(InvalidOperation, match="TransactionPartitionKey"):
        transaction.join_send(ORDERS, [Message(b"")], Via(PARTS, other))
