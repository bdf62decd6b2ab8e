"""What a link's address names, in every spelling that clients use."""

import pytest

from bendybus.model.addresses import ADDRESS_LENGTH_MAX, Address, parse_address
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import SubQueue

DEAD, TRANSFER_DEAD = SubQueue.DEAD_LETTER, SubQueue.TRANSFER_DEAD_LETTER


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("orders", Address("orders")),
        ("/orders", Address("orders")),
        ("/orders/", Address("orders")),
        ("amqps://host:5672/orders", Address("orders")),
        ("sb://host/orders/", Address("orders")),
        ("/depot%2Fspare%20parts", Address("depot/spare parts")),
        ("a/b/c", Address("a/b/c")),
        ("orders/$management", Address("orders", is_management=True)),
        ("orders/$MANAGEMENT", Address("orders", is_management=True)),
        ("orders/$DeadLetterQueue", Address("orders", sub_queue=DEAD)),
        ("orders/$deadletterqueue", Address("orders", sub_queue=DEAD)),
        ("orders/$Transfer/$DeadLetterQueue", Address("orders", sub_queue=TRANSFER_DEAD)),
        (
            "orders/$DeadLetterQueue/$management",
            Address("orders", sub_queue=DEAD, is_management=True),
        ),
        ("news/Subscriptions/all", Address("news", "all")),
        ("a/news/subscriptions/all", Address("a/news", "all")),
        (
            "news/SUBSCRIPTIONS/all/$DeadLetterQueue/$management",
            Address("news", "all", DEAD, is_management=True),
        ),
        ("$cbs", Address("$cbs")),
        ("subscriptions/x", Address("subscriptions/x")),
        ("$management", Address("$management")),
    ],
)
def test_an_address_is_taken_apart_from_the_right(address: str, expected: Address) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize("address", [None, "", 7, b"orders", "/", "sb://host", "sb://host/"])
def test_what_names_no_entity_is_refused(address: object) -> None:
    with pytest.raises(ArgumentInvalid):
        parse_address(address)


def test_an_address_has_a_bounded_length() -> None:
    assert parse_address("x" * ADDRESS_LENGTH_MAX).path == "x" * ADDRESS_LENGTH_MAX
    with pytest.raises(ArgumentInvalid, match="too long"):
        parse_address("x" * (ADDRESS_LENGTH_MAX + 1))


@pytest.mark.parametrize(
    ("address", "resource"),
    [
        ("sb://host/orders/$management", "orders"),
        ("Orders/$deadletterqueue", "Orders/$DeadLetterQueue"),
        ("news/subscriptions/all", "news/Subscriptions/all"),
        ("orders/$transfer/$deadletterqueue", "orders/$Transfer/$DeadLetterQueue"),
    ],
)
def test_the_resource_is_what_tokens_name(address: str, resource: str) -> None:
    assert parse_address(address).resource == resource


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("orders/$management", "/ORDERS/$Management", True),
        ("orders/$management", "orders", False),
        ("orders/$management", "orders/$DeadLetterQueue/$management", False),
        ("$cbs", "$cbs", True),
    ],
)
def test_nodes_are_the_same_whatever_their_spelling(one: str, other: str, is_same: bool) -> None:
    assert parse_address(one).is_same_node(parse_address(other)) is is_same


def test_the_token_node_is_known_by_name() -> None:
    assert parse_address("$cbs").is_cbs
    assert not parse_address("orders").is_cbs
