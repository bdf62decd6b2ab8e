"""Which paths are about messages, and what they name."""

import uuid

import pytest

from bendybus.http.rest_path import Subject, parse_rest_path
from bendybus.model.ids import SubQueue

TOKEN = "00000000-0001-0000-0000-0000000000ff"


@pytest.mark.parametrize(
    ("method", "path", "subject", "entity"),
    [
        ("POST", "/q/messages", Subject.MESSAGES, "q"),
        ("POST", "/a/b%2Fc/Messages/", Subject.MESSAGES, "a/b/c"),
        ("POST", "/messages/messages", Subject.MESSAGES, "messages"),
        ("POST", "/q/messages/head", Subject.HEAD, "q"),
        ("DELETE", "/q/MESSAGES/HEAD", Subject.HEAD, "q"),
        ("DELETE", "/a/messages/head/messages/head", Subject.HEAD, "a/messages/head"),
        ("DELETE", f"/q/messages/1/{TOKEN}", Subject.LOCKED, "q"),
        ("PUT", f"/a/b/messages/id%2Fwith%2Fslashes/{TOKEN}", Subject.LOCKED, "a/b"),
        ("POST", f"/q/messages/messages/{TOKEN}", Subject.LOCKED, "q"),
    ],
)
def test_a_path_names_an_entity_and_what_of_it(
    method: str, path: str, subject: Subject, entity: str
) -> None:
    found = parse_rest_path(method, path)
    assert found is not None
    assert (found.subject, found.address.path) == (subject, entity)
    expected = uuid.UUID(TOKEN) if subject is Subject.LOCKED else None
    assert found.lock_token == expected


def test_a_subscription_and_its_sub_queues_are_addressed_as_everywhere() -> None:
    found = parse_rest_path("POST", "/t/Subscriptions/s/%24Transfer/$deadletterqueue/messages/head")
    assert found is not None
    assert (found.address.path, found.address.subscription) == ("t", "s")
    assert found.address.sub_queue is SubQueue.TRANSFER_DEAD_LETTER
    assert found.resource == "/t/Subscriptions/s/$Transfer/$deadletterqueue/messages/head"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/q/messages"),
        ("PUT", "/q/messages"),
        ("DELETE", "/q/messages"),
        ("PUT", "/q/messages/head"),
        ("GET", f"/q/messages/1/{TOKEN}"),
        ("PUT", "/q/messages/1/not-a-token"),
        ("POST", "/messages"),
        ("POST", "/messages/head"),
        ("POST", "/q"),
        ("POST", "/"),
        ("PUT", "/q/messages/head/more"),
    ],
)
def test_other_paths_are_for_others(method: str, path: str) -> None:
    assert parse_rest_path(method, path) is None
