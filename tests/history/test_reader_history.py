"""Any history of a queue from which a reader reserves, beside all else that happens to it."""

from dataclasses import dataclass, field
from itertools import count
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from bendybus.broker.commit_reserved import commit_reserved
from bendybus.broker.give_back import give_back
from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReservedPart, ReserveWish, reserve
from bendybus.broker.served_queue import Source
from bendybus.model.errors import ReaderInUse, ReaderLost, StoreUnavailable
from bendybus.model.ids import SubQueue
from bendybus.model.message import MessageState, StoredMessage
from tests.history.queue_model import check_fields
from tests.history.queue_world import PLACE
from tests.history.test_set_aside_history import (
    ConventionalSetAsideHistory,
    PartitionedSetAsideHistory,
    SetAsideHistory,
)
from tests.history.world import fewer_examples

NAME: Final = "capture"
EVERYTHING: Final = 10_000
IDLE_SECONDS: Final = 70
# That it is used is noted a few seconds late.
IDLE_MS_MIN: Final = 55_000


@dataclass(slots=True)
class Reading:
    """What a reader has: its token, how far it came, and what it read where."""

    token: str
    used_at: int
    end: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    # By fragment and position.
    contents: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)


class ReaderHistory(SetAsideHistory):
    """One queue, and a reader of it and of its dead letters."""

    def __init__(self) -> None:
        self.reading: dict[SubQueue, Reading] = {}
        self.new_tokens = count()
        super().__init__()

    def reader_of(self, place: SubQueue) -> Reading | None:
        """Return the reader; it is opened when all stores are there for the first time."""
        reading = self.reading.get(place)
        if reading is None and self.are_all_online:
            reading = self.reading[place] = Reading(f"token {next(self.new_tokens)}", self.now)
            opened = self.run(
                open_reader(self.queue.sub_queues[place], NAME, reading.token, self.clock)
            )
            assert set(opened.committed.values()) == {0}
        return reading

    @rule(place=PLACE, count_max=st.sampled_from([1, 2, 5, EVERYTHING]))
    def reserve(self, place: SubQueue, count_max: int) -> None:
        """Reserve more: the oldest of each fragment, and as many as there are, up to the bound."""
        reading = self.reader_of(place)
        if reading is None:
            return
        free = {each.content for each in self.free(self.queue.name, place)}
        before = dict(reading.end)
        made = self.ask(place, reading, before, count_max)
        if made is None:
            return
        assert made.messages == min(count_max, len(free))
        taken = {
            message.content
            for source in self.online_sources(place)
            for message in self.note_read(source, reading, before, made)
        }
        assert taken <= free
        assert len(taken) == made.messages
        self.model.check_oldest(place, taken, self.now)
        for content in taken:
            self.model.messages[content].state = MessageState.RESERVED

    @rule(place=PLACE)
    def ask_again(self, place: SubQueue) -> None:
        """Ask behind what is done with: everything that is reserved is given again."""
        reading = self.reader_of(place)
        if reading is None or self.free(self.queue.name, place):
            return
        made = self.ask(place, reading, reading.committed, EVERYTHING)
        if made is None:
            return
        for source in self.online_sources(place):
            fragment = source.fragment
            assert made.end[fragment] == reading.end.get(fragment, 0)

    @rule(place=PLACE)
    def read_again(self, place: SubQueue) -> None:
        """What was reserved reads back as it did."""
        reading = self.reader_of(place)
        if reading is None:
            return
        for source in self.online_sources(place):
            fragment = source.fragment
            found = self.read(source, reading, reading.committed.get(fragment, 0))
            assert found == {
                position: contents
                for (where, position), contents in reading.contents.items()
                if where == fragment
            }

    @rule(place=PLACE, part=st.sampled_from([0.0, 0.5, 1.0]))
    def commit(self, place: SubQueue, part: float) -> None:
        reading = self.reader_of(place)
        if reading is None:
            return
        until = {fragment: int(end * part) for fragment, end in reading.end.items()}
        try:
            work = commit_reserved(
                self.queue.sub_queues[place], NAME, reading.token, until, self.clock
            )
            self.run(work)
        except StoreUnavailable:
            assert not all(self.is_online(self.queue.name, each) for each in until)
        for fragment, position in until.items():
            if self.is_online(self.queue.name, fragment):
                done = [
                    key for key in reading.contents if key[0] == fragment and key[1] <= position
                ]
                for key in done:
                    for content in reading.contents.pop(key):
                        del self.model.messages[content]
                reading.committed[fragment] = max(reading.committed.get(fragment, 0), position)

    @rule(place=PLACE, is_an_operator=st.booleans())
    def give_back(self, place: SubQueue, is_an_operator: bool) -> None:
        reading = self.reader_of(place)
        if reading is None:
            return
        token = None if is_an_operator else reading.token
        sub_queue = self.queue.sub_queues[place]
        try:
            freed = self.run(give_back(sub_queue, NAME, token, self.clock))
        except StoreUnavailable:
            assert not self.are_all_online
            return
        kept = [content for contents in reading.contents.values() for content in contents]
        assert freed.messages == len(kept)
        for content in kept:
            self.model.messages[content].state = MessageState.ACTIVE
        del self.reading[place]
        assert self.is_lost(place, reading.token)

    @rule(place=PLACE, is_patient=st.booleans())
    def take_over(self, place: SubQueue, is_patient: bool) -> None:
        """Another opens the reader: not while it is in use, and with all that it has."""
        reading = self.reader_of(place)
        if reading is None or not self.are_all_online:
            return
        sub_queue = self.queue.sub_queues[place]
        other = f"token {next(self.new_tokens)}"
        if not is_patient:
            try:
                self.run(open_reader(sub_queue, NAME, other, self.clock))
            except ReaderInUse:
                return
            assert self.now - reading.used_at >= IDLE_MS_MIN, "taken from somebody who uses it"
        else:
            self.clock.advance(IDLE_SECONDS)
            self.run(open_reader(sub_queue, NAME, other, self.clock))
        before, reading.token, reading.used_at = reading.token, other, self.now
        assert self.is_lost(place, before)

    def is_lost(self, place: SubQueue, token: str) -> bool:
        """Say whether a token opens the reader no longer."""
        sub_queue = self.queue.sub_queues[place]
        try:
            self.run(commit_reserved(sub_queue, NAME, token, {0: 0}, self.clock))
        except ReaderLost:
            return True
        return False

    def ask(
        self, place: SubQueue, reading: Reading, after: dict[int, int], count_max: int
    ) -> ReservedPart | None:
        """Ask for more, of the stores that are there; None if none is."""
        wish = ReserveWish(
            reader=NAME,
            token=reading.token,
            after=after,
            messages_max=count_max,
            skips_offline=True,
        )
        reading.used_at = self.now
        try:
            return self.run(reserve(self.queue.sub_queues[place], wish, self.clock))
        except StoreUnavailable:
            assert not self.online_sources(place)
            return None

    def online_sources(self, place: SubQueue) -> list[Source]:
        sources = self.queue.sub_queues[place].sources
        return [source for source in sources if source.store.is_online]

    def note_read(
        self, source: Source, reading: Reading, before: dict[int, int], made: ReservedPart
    ) -> list[StoredMessage]:
        """Read what a fragment has reserved since, and remember it."""
        fragment = source.fragment
        reading.end[fragment] = made.end[fragment]
        messages = self.messages_between(source, reading, before.get(fragment, 0))
        for position, found in messages.items():
            reading.contents[fragment, position] = [each.content for each in found]
        return [message for found in messages.values() for message in found]

    def read(self, source: Source, reading: Reading, after: int) -> dict[int, list[bytes]]:
        found = self.messages_between(source, reading, after)
        for messages in found.values():
            for message in messages:
                check_fields(message, self.model.messages[message.content])
        return {
            position: [message.content for message in messages]
            for position, messages in found.items()
        }

    def messages_between(
        self, source: Source, reading: Reading, after: int
    ) -> dict[int, list[StoredMessage]]:
        """Read from a position to the end, by position."""

        async def read() -> dict[int, list[StoredMessage]]:
            found: dict[int, list[StoredMessage]] = {}
            for each in await source.store.reservations(
                source.number,
                NAME,
                reading.token,
                after=after,
                until=reading.end.get(source.fragment, 0),
                now=self.clock.now(),
            ):
                found[each.position] = await source.store.read_reserved(
                    source.number, each.number, from_sequence=0, count_max=1000, bytes_max=1 << 30
                )
            return found

        return self.run(read())


class ConventionalReaderHistory(ReaderHistory, ConventionalSetAsideHistory):
    """A conventional queue."""


class PartitionedReaderHistory(ReaderHistory, PartitionedSetAsideHistory):
    """A partitioned queue."""


TestConventionalReaderHistory = pytest.mark.spec("R9.3")(ConventionalReaderHistory.TestCase)
TestPartitionedReaderHistory = pytest.mark.spec("R9.3")(PartitionedReaderHistory.TestCase)
TestConventionalReaderHistory.settings = fewer_examples(6)
TestPartitionedReaderHistory.settings = fewer_examples(8)
