"""What a client's deliveries are, in the order they came: groups of messages, by fragment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeVar

from bendybus.amqp.events import TransferReceived, TransferRunReceived
from bendybus.broker.send import check_one_key, check_session_ids, group_by_fragment
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedTopic
from bendybus.content.incoming_message import (
    BATCH_FORMAT,
    read_batch,
    read_message,
    read_plain_messages,
)
from bendybus.model.digests import digest_of_plain
from bendybus.model.errors import BusError
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.partitioning import places_of_ids
from bendybus.model.plain_messages import PlainMessages, chosen_of
from bendybus.server.fragment_turns import Group, Intake, SplitBatch

T = TypeVar("T")
Places = Mapping[FragmentIndex | None, Sequence[int]]


class Sorting:
    """Reads the deliveries of one link."""

    def __init__(
        self, queue: ServedQueue, refuse: Callable[[Iterable[int], BusError], None]
    ) -> None:
        self._queue = queue
        # Told of deliveries that cannot be read.
        self._refuse = refuse
        self._is_id_wanted = queue.duplicate_window_ms is not None
        # Who looks at messages one by one has no use for columns.
        self._takes_columns = not isinstance(queue, ServedTopic)

    def messages_of(self, event: TransferReceived) -> list[Message]:
        """Read the messages of a delivery: one, or those of a batch."""
        if _is_batch(event):
            return self._checked_batch(event.payload)
        return [read_message(event.payload, is_id_wanted=self._is_id_wanted)]

    def groups_of(self, runs: Sequence[TransferRunReceived]) -> tuple[Intake, list[Group]]:
        """Read what came together; what belongs to a fragment keeps its order."""
        ids = _joined([run.delivery_ids for run in runs])
        payloads = _joined([run.payloads for run in runs])
        intake = Intake(len(ids), sum(map(len, payloads)))
        silent = {each for run in runs if run.settled for each in run.delivery_ids}
        groups = None
        if not (self._queue.main.has_sessions or any(map(_is_batch, runs))):
            groups = self._groups_of_plain(ids, payloads, silent, intake)
        if groups is None:
            groups = self._groups_of_any(runs, silent, intake)
        intake.groups_left = len(groups)
        return intake, groups

    def _groups_of_plain(
        self, ids: Sequence[int], payloads: Sequence[bytes], silent: set[int], intake: Intake
    ) -> list[Group] | None:
        """Take messages of the most common shape apart, or return None if not all are."""
        queue = self._queue
        columns = read_plain_messages(payloads, are_ids_wanted=self._is_id_wanted)
        if columns is None:
            return None
        contents, message_ids, lives = columns
        is_lasting = queue.time_to_live_ms is None and lives.count(None) == len(lives)
        if not (self._takes_columns and is_lasting):
            texts = map(bytes.decode, message_ids) if message_ids else repeat("")
            messages = [
                Message(content, message_id, None, None, life)
                for content, message_id, life in zip(contents, texts, lives, strict=False)
            ]
            return _groups(messages, group_by_fragment(queue, messages), ids, silent, intake)
        digests = list(map(digest_of_plain, message_ids)) if self._is_id_wanted else None
        places: Places
        if self._is_id_wanted and queue.is_partitioned:
            places = places_of_ids(message_ids, len(queue.main.sources))
        else:
            places = {None if queue.is_partitioned else FragmentIndex(0): range(len(ids))}
        return _groups(PlainMessages(contents, digests), places, ids, silent, intake)

    def _groups_of_any(
        self, runs: Sequence[TransferRunReceived], silent: set[int], intake: Intake
    ) -> list[Group]:
        """Take messages of any shape apart: batches, and what came between them."""
        groups: list[Group] = []
        between: list[tuple[int, Message]] = []
        for run in runs:
            for delivery_id, payload in zip(run.delivery_ids, run.payloads, strict=True):
                try:
                    if _is_batch(run):
                        batch = self._checked_batch(payload)
                        groups += self._groups_of_single(between, silent, intake)
                        between = []
                        groups += self._groups_of_batch(delivery_id, batch, silent, intake)
                    else:
                        between.append((delivery_id, self._checked_message(payload)))
                except BusError as error:
                    if not run.settled:
                        self._refuse([delivery_id], error)
        return groups + self._groups_of_single(between, silent, intake)

    def _groups_of_single(
        self, delivered: Sequence[tuple[int, Message]], silent: set[int], intake: Intake
    ) -> list[Group]:
        """Take messages apart, each delivered by itself."""
        ids = [delivery_id for delivery_id, _ in delivered]
        messages = [message for _, message in delivered]
        return _groups(messages, group_by_fragment(self._queue, messages), ids, silent, intake)

    def _groups_of_batch(
        self, delivery_id: int, batch: list[Message], silent: set[int], intake: Intake
    ) -> list[Group]:
        """Keep a batch together, in the fragment of its key; with ids as keys, take it apart."""
        groups = group_by_fragment(self._queue, batch)
        if self._is_id_wanted and len(groups) > 1:
            split = SplitBatch(delivery_id, delivery_id in silent, len(groups))
            return [
                Group(fragment, False, [batch[at] for at in places], [], [split], [intake])
                for fragment, places in groups.items()
            ]
        keyed = [each for each in groups if each is not None]
        answered = [] if delivery_id in silent else [delivery_id]
        return [Group(keyed[0] if keyed else None, True, batch, answered, [], [intake])]

    def _checked_message(self, payload: bytes) -> Message:
        message = read_message(payload, is_id_wanted=self._is_id_wanted)
        if self._queue.main.has_sessions:
            check_session_ids(self._queue, [message])
        return message

    def _checked_batch(self, payload: bytes) -> list[Message]:
        batch = read_batch(payload, is_id_wanted=self._is_id_wanted)
        check_session_ids(self._queue, batch)
        check_one_key(self._queue, batch)
        return batch


def _is_batch(delivered: TransferReceived | TransferRunReceived) -> bool:
    return delivered.message_format == BATCH_FORMAT


def _joined(lists: Sequence[list[T]]) -> list[T]:
    return lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))


def _groups(
    messages: list[Message] | PlainMessages,
    fragments: Places,
    ids: Sequence[int],
    silent: set[int],
    intake: Intake,
) -> list[Group]:
    """Make a group for each fragment; deliveries that are silent are not to be answered."""
    groups = []
    for fragment, places in fragments.items():
        if places:
            answered = [ids[at] for at in places]
            if silent:
                answered = [each for each in answered if each not in silent]
            here = chosen_of(messages, places)
            groups.append(Group(fragment, False, here, answered, [], [intake]))
    return groups
