"""Where dead letters go that are redriven, and which of them cannot go there."""

from collections.abc import Callable

from bendybus.broker.catalog import Catalog
from bendybus.broker.send import check_open_for_send
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.served_topic import ServedSubscription
from bendybus.model.errors import BusError, InvalidOperation
from bendybus.model.forwarding import why_undeliverable
from bendybus.model.ids import SubQueue
from bendybus.model.message import StoredMessage
from bendybus.model.redrive import dead_letter_source_of, destination_of

# Raises `Unauthorized` unless who asks may send to the entity of that path.
MaySend = Callable[[str], None]


class Refused(Exception):
    """A message cannot go where it is to; the text says why."""


class Route:
    """The way of the dead letters of one queue, as one request wants it."""

    def __init__(
        self,
        sub_queue: ServedSubQueue,
        to: str | None,
        catalog: Catalog,
        may_send: MaySend,
        *,
        is_to_source: bool,
    ) -> None:
        """Raises what is wrong with where all messages are to go."""
        if sub_queue.sub_queue is SubQueue.MAIN and not is_to_source:
            raise InvalidOperation(
                "Only dead letters are redriven. Address the dead-letter queue of the entity, or"
                " ask for dead letters that were forwarded here to go back to their source."
            )
        self._sub_queue = sub_queue
        self._catalog = catalog
        self._may_send = may_send
        self._is_to_source = is_to_source
        self._known: dict[str, ServedQueue | BusError] = {}
        self._all: ServedQueue | None = None
        if not is_to_source:
            self._all = self._open(to or sub_queue.queue.name)
            if self._all is not sub_queue.queue and isinstance(self._all, ServedSubscription):
                raise InvalidOperation(
                    f"Messages cannot be sent to a subscription; redrive them to the topic"
                    f" '{self._all.topic.name}', or the dead letters of '{to}' to itself."
                )

    def destination(self, stored: StoredMessage) -> str | None:
        """Return the other entity that a message goes to; None: it goes back. Raises `Refused`."""
        queue = self._queue(stored)
        why = why_undeliverable(stored, queue.name, queue.properties)
        if why is not None:
            raise Refused(why.description)
        if queue is not self._sub_queue.queue:
            return queue.name
        if self._sub_queue.sub_queue is SubQueue.MAIN:
            raise Refused("it is where it became a dead letter")
        return None

    def _queue(self, stored: StoredMessage) -> ServedQueue:
        own = self._sub_queue.queue
        name: str | None
        if self._is_to_source:
            name = dead_letter_source_of(stored)
            if name is None:
                raise Refused("it does not say what it is a dead letter of")
        else:
            assert self._all is not None, "all messages go to one entity"
            if self._all is not own:
                return self._all
            name = destination_of(stored, self._sub_queue.sub_queue)
            if name is None:
                return own
        if name not in self._known:
            try:
                self._known[name] = self._open(name)
            except BusError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, BusError):
            raise Refused(str(found))
        return found

    def _open(self, name: str) -> ServedQueue:
        """Return an entity if messages may be sent there."""
        queue = self._catalog.queue(name)
        if queue is not self._sub_queue.queue:
            self._may_send(queue.name)
        check_open_for_send(queue)
        return queue
