"""Which queues and subscriptions a pipeline is to look at for dead letters."""

import ssl
from collections.abc import Iterator
from typing import Final

from bendybus.atom.properties import Kind
from bendybus.client.administration import Administration, Described
from bendybus.client.bulk_values import Place
from bendybus.client.errors import ClientError, EntityNotFound
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.options import BusOptions

ALL: Final = "*"
DEAD_LETTERS: Final = "deadletter"
SUBSCRIPTIONS: Final = "/Subscriptions/"


def places_of(options: BusOptions, named: str, management_url: str | None) -> list[Place]:
    """Return the places that hold dead letters of what was named. Raises `PipelineFailed`."""
    tls = None
    if options.authority is not None:
        tls = ssl.create_default_context(cafile=str(options.authority))
    administration = Administration.from_connection_string(
        options.connection_string, management_url, tls
    )
    try:
        return list(_places(administration, named))
    except ClientError as error:
        raise PipelineFailed(str(error)) from None


def _places(administration: Administration, named: str) -> Iterator[Place]:
    topic, is_subscription, subscription = named.partition(SUBSCRIPTIONS)
    if is_subscription:
        described = administration.show(Kind.SUBSCRIPTION, subscription, topic)
        yield from _holding(described, topic)
    elif named != ALL:
        yield from _of_entity(administration, named)
    else:
        for queue in administration.list(Kind.QUEUE):
            yield from _holding(queue)
        for each in administration.list(Kind.TOPIC):
            yield from _of_topic(administration, each.name)


def _of_entity(administration: Administration, name: str) -> Iterator[Place]:
    try:
        queue = administration.show(Kind.QUEUE, name)
    except EntityNotFound:
        administration.show(Kind.TOPIC, name)
        yield from _of_topic(administration, name)
    else:
        yield from _holding(queue)


def _of_topic(administration: Administration, name: str) -> Iterator[Place]:
    for each in administration.list(Kind.SUBSCRIPTION, name):
        yield from _holding(each, name)


def _holding(described: Described, topic: str | None = None) -> Iterator[Place]:
    """Pass over what has no dead letters: to ask Spark takes longer than to ask the broker."""
    if not described.facts.counts.dead_letter:
        return
    if topic is None:
        yield Place(described.name, None, DEAD_LETTERS)
    else:
        yield Place(topic, described.name, DEAD_LETTERS)
