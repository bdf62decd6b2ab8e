"""Who may do what at the bulk door, and what it is done to. Runs in the broker's loop."""

import asyncio
from typing import Any

from bendybus.broker.authorize import Authorization
from bendybus.broker.catalog import Catalog
from bendybus.broker.following import found
from bendybus.broker.hosts import Hosts, ServedNamespace
from bendybus.broker.receive import check_has_messages, check_status_for_receive
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source
from bendybus.broker.served_topic import ServedSubscription, ServedTopic
from bendybus.broker.stages_under_way import StagesUnderWay
from bendybus.flight.calls import Call
from bendybus.model.access import Claims
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.addresses import Address
from bendybus.model.errors import (
    AuthenticationFailed,
    EntityNotFound,
    StoreFailed,
    StoreUnavailable,
    Unauthorized,
)
from bendybus.model.suggestion import suggest


class Desk:
    """Finds what calls are about, for those who may."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    @property
    def stages_under_way(self) -> StagesUnderWay:
        """What is being written in bulk, in any namespace."""
        return self._hosts.default.catalog.holdings.under_way

    async def queue(self, call: Call, address: Address, *actions: Action) -> ServedQueue:
        """Return a queue, topic or subscription for who may do one of these with it.

        Raises what `Authorization` does, and `EntityNotFound`.
        """
        served = self._hosts.of(call.host)
        try:
            return await self._queue_of(served, call, address, *actions)
        except AuthenticationFailed:
            # By then it is known what other front ends have created.
            meant = self._hosts.of(call.host)
            if meant is served:
                raise
        return await self._queue_of(meant, call, address, *actions)

    async def _queue_of(
        self, served: ServedNamespace, call: Call, address: Address, *actions: Action
    ) -> ServedQueue:
        catalog, authentication = served
        authorization = Authorization(authentication)
        *others, last = actions
        for action in others:
            try:
                claims = await self._claims(authorization, call, address, action)
            except Unauthorized:
                continue
            return await self._found(claims, catalog, address, action)
        claims = await self._claims(authorization, call, address, last)
        return await self._found(claims, catalog, address, last)

    async def _found(
        self, claims: Claims, catalog: Catalog, address: Address, action: Action
    ) -> ServedQueue:
        following = catalog.records.following
        return await found(following, lambda: found_for(claims, catalog, address, action))

    async def readable(self, call: Call, address: Address, action: Action) -> ServedSubQueue:
        """Return what messages can be read from. Raises as above, and `InvalidOperation`."""
        queue = await self.queue(call, address, action)
        check_has_messages(queue)
        sub_queue = queue.sub_queues[address.sub_queue]
        check_status_for_receive(sub_queue, may_forward=action is Action.READ_MESSAGES)
        return sub_queue

    async def describe(self, call: Call, address: Address) -> dict[str, Any]:
        """Say what an entity is like, and how far each fragment goes now."""
        queue = await self.queue(call, address, Action.DESCRIBE_QUEUE, Action.STAGE_MESSAGES)
        sub_queue = queue.sub_queues[address.sub_queue]
        return {
            "entity": queue.name,
            "is_topic": isinstance(queue, ServedTopic),
            "is_partitioned": queue.is_partitioned,
            "requires_session": queue.properties.requires_session,
            "max_message_bytes": queue.message_bytes_max,
            "fragments": await asyncio.gather(
                *(_fragment(source, _bodies_of(queue, source)) for source in sub_queue.sources)
            ),
        }

    async def _claims(
        self, authorization: Authorization, call: Call, address: Address, action: Action
    ) -> Claims:
        assert call.peer is not None, "who calls is known before anything is asked"
        claims = await authorization.require_token(
            call.token,
            action,
            path=address.resource,
            entity=address.path,
            client=call.peer,
        )
        call.note_known()
        return claims


def found_for(claims: Claims, catalog: Catalog, address: Address, action: Action) -> ServedQueue:
    """Return an entity, or say which was probably meant. Raises `EntityNotFound`."""
    try:
        if address.subscription is None:
            return catalog.queue(address.path)
        return catalog.subscription(address.path, address.subscription)
    except EntityNotFound as error:
        # The names of others are for those who may do this with all of them; roles can be given
        # on one that is gone.
        if not claims.allows(RIGHTS_NEEDED[action]):
            raise
        raise EntityNotFound(f"{error.message} {_suggestion(catalog, address)}") from None


def _suggestion(catalog: Catalog, address: Address) -> str:
    if address.subscription is None or not catalog.has(address.path):
        names = [each.name for each in catalog.queues() if "/" not in each.name]
        return f"Of queues and topics: {suggest(address.path, names)}"
    topic = catalog.queue(address.path)
    if not isinstance(topic, ServedTopic):
        return f"'{address.path}' is a queue and has no subscriptions."
    names = [each.subscription.name for each in topic.subscriptions]
    return f"Of subscriptions: {suggest(address.subscription, names)}"


def _bodies_of(queue: ServedQueue, source: Source) -> Source | None:
    """Return the fragment of a topic that keeps the bodies for one of a subscription."""
    return (
        queue.topic.main.sources[source.fragment] if isinstance(queue, ServedSubscription) else None
    )


async def _fragment(source: Source, bodies: Source | None) -> dict[str, Any]:
    fragment = {"fragment": source.fragment, "store": source.store.status().number}
    try:
        extent = await source.store.extent(source.number)
        size = extent.bytes
        if bodies is not None and extent.messages:
            # Those of messages that only other subscriptions have are among them.
            size += (await bodies.store.counts(bodies.number)).bytes
    except (StoreUnavailable, StoreFailed):
        return {**fragment, "is_online": False}
    return {
        **fragment,
        "is_online": True,
        "first_sequence": extent.first_sequence,
        "next_sequence": extent.last_sequence + 1,
        "messages": extent.messages,
        "bytes": size,
    }
