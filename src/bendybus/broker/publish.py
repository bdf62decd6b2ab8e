"""publish: messages that reach a topic are given to the subscriptions whose rules let them in."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bendybus.broker.expiry import expiry_of
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.broker.served_topic import ServedRule, ServedSubscription, ServedTopic
from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Marks, Message, joined_marks
from bendybus.model.message_view import MessageView
from bendybus.model.operations import ChangedCopy, Publish, Taker, Transfer
from bendybus.model.partitioning import check_keys, fragment_for
from bendybus.model.settlement import DEAD_LETTER_TEXT_LENGTH_MAX
from bendybus.model.sql_values import FilterFailed

# How many filters are asked before others have their turn: some ten milliseconds.
EVALUATIONS_TOGETHER: Final = 5_000
FILTER_FAILED: Final = "FilterException"
NO_SESSION: Final = "Session id is null."
NO_SESSION_DESCRIPTION: Final = (
    "The subscription requires sessions, and the message has no SessionId."
)


class DeadLetters(NamedTuple):
    """Why some messages go to a subscription's dead letters, and not into it."""

    subscription: ServedSubscription
    reason: str
    description: str

    @property
    def marks(self) -> Marks:
        """What is noted with each of them."""
        return Marks(
            dead_letter_reason=self.reason,
            dead_letter_description=self.description[:DEAD_LETTER_TEXT_LENGTH_MAX],
            dead_letter_source=self.subscription.name,
        )


class Arrival(NamedTuple):
    """Messages that a queue gets, and when the first of them expires there."""

    sub_queue: ServedSubQueue
    source: Source
    messages: Sequence[Message]
    soonest: Instant | None = None


async def publication_of(
    topic: ServedTopic, source: Source, messages: Sequence[Message], now: Instant
) -> "Publication":
    """Decide who gets which of some messages, letting others have their turn in between.

    Whoever must keep an order holds `topic.evaluating` meanwhile.
    """
    publication = Publication(topic, source, messages, now)
    if not topic.index.is_empty:
        together = max(1, EVALUATIONS_TOGETHER // topic.index.asked_count)
        for start in range(0, len(messages), together):
            if start:
                await asyncio.sleep(0)
            publication.ask_rules(range(start, min(start + together, len(messages))))
    publication.conclude()
    return publication


class Publication:
    """Who gets which of some messages, all of one fragment. Made by `publication_of`."""

    def __init__(
        self, topic: ServedTopic, source: Source, messages: Sequence[Message], now: Instant
    ) -> None:
        self.takers: list[Taker] = []
        self.changed: list[ChangedCopy] = []
        self.arrivals: list[Arrival] = []
        self._topic = topic
        self._source = source
        self._messages = messages
        self._now = now
        self._chosen: dict[ServedSubscription, list[int]] = {}
        self._copies: list[tuple[ServedSubscription, ChangedCopy, Arrival]] = []
        self._taken: dict[ServedSubscription, Sequence[int]] = {}
        self._dead: dict[DeadLetters, list[int]] = {}

    def operation(
        self, duplicates_since: Instant | None, transfers: Sequence[Transfer] | None = None
    ) -> Publish:
        """Return what to tell the store of the fragment."""
        return Publish(
            self._source.number,
            self._messages,
            self.takers,
            self.changed,
            self._topic.fragment_bytes_max,
            duplicates_since,
            transfers,
        )

    def ask_rules(self, indexes: range) -> None:
        """Ask the rules that have to look at messages, of each message once."""
        for at in indexes:
            self._ask_rules(at, self._topic.reader.view(self._messages[at], self._now))

    def conclude(self) -> None:
        """Say who gets what, now that all rules have been asked.

        A subscription that went meanwhile gets nothing.
        """
        everything = range(len(self._messages))
        for subscription, copy, arrival in self._copies:
            if self._topic.has(subscription):
                self.changed.append(copy)
                self.arrivals.append(arrival)
        for subscription in self._topic.subscriptions:
            if not subscription.takes_messages:
                continue
            if subscription.takes_everything:
                self._taken[subscription] = everything
            elif subscription in self._chosen:
                self._taken[subscription] = self._chosen[subscription]
        for subscription in self._taken:
            if subscription.properties.requires_session:
                self._set_aside_without_session(subscription)
        self.takers = list(self._takers())

    def _ask_rules(self, at: int, view: MessageView) -> None:
        matched, failed = self._topic.index.matching(view)
        for rule in matched:
            if rule.action is not None:
                self._change(at, view, rule)
                continue
            indexes = self._chosen.setdefault(rule.subscription, [])
            # Rules without an action together let in one copy.
            if not indexes or indexes[-1] != at:
                indexes.append(at)
        for rule, failure in failed:
            self._note_failure(at, rule, failure)

    def _change(self, at: int, view: MessageView, rule: ServedRule) -> None:
        """Make the copy of a rule that has an action."""
        subscription = rule.subscription
        if rule.action is None or not subscription.takes_messages:
            return
        try:
            changes = rule.action.apply(view)
            copy = self._topic.reader.changed(self._messages[at], changes)
            self._check_place(copy, subscription)
        except FilterFailed as failure:
            self._note_failure(at, rule, failure)
            return
        source = subscription.main.sources[self._source.fragment]
        copy.expires_at = expiry_of(copy, subscription, self._now)
        sub_queue = subscription.main
        if subscription.properties.requires_session and copy.session_id is None:
            sub_queue = subscription.sub_queues[SubQueue.DEAD_LETTER]
            source = sub_queue.sources[source.fragment]
            why = DeadLetters(subscription, NO_SESSION, NO_SESSION_DESCRIPTION)
            copy = replace(copy, marks=joined_marks(copy.marks, why.marks), expires_at=None)
        arrival = Arrival(sub_queue, source, [copy], copy.expires_at)
        self._copies.append((subscription, ChangedCopy(source.number, at, copy), arrival))

    def _check_place(self, copy: Message, subscription: ServedSubscription) -> None:
        """Refuse changes by which a copy would belong elsewhere than with its message."""
        try:
            check_keys(copy)
        except InvalidOperation as error:
            raise FilterFailed(str(error)) from error
        session_id = copy.session_id
        if not subscription.properties.requires_session or session_id is None:
            return
        count = len(subscription.main.sources)
        if subscription.is_partitioned and fragment_for(session_id, count) != self._source.fragment:
            raise FilterFailed(
                "the action changes the SessionId to one of another fragment of the partitioned"
                " subscription"
            )

    def _note_failure(self, at: int, rule: ServedRule, failure: FilterFailed) -> None:
        """Send the message to the dead letters, if the subscription wants to know of failures."""
        subscription = rule.subscription
        wanted = subscription.subscription.properties
        if wanted.dead_lettering_on_filter_evaluation_exceptions and subscription.takes_messages:
            why = DeadLetters(subscription, FILTER_FAILED, str(failure))
            self._dead.setdefault(why, []).append(at)

    def _set_aside_without_session(self, subscription: ServedSubscription) -> None:
        """Send messages to the dead letters that could never be received."""
        indexes = self._taken[subscription]
        without = [at for at in indexes if self._messages[at].session_id is None]
        if without:
            self._dead[DeadLetters(subscription, NO_SESSION, NO_SESSION_DESCRIPTION)] = without
            left_out = set(without)
            self._taken[subscription] = [at for at in indexes if at not in left_out]

    def _takers(self) -> Iterator[Taker]:
        fragment = self._source.fragment
        expiries = _Expiries(self._messages, self._now)
        for subscription, indexes in self._taken.items():
            if indexes:
                source = subscription.main.sources[fragment]
                instants, soonest = expiries.of(subscription, indexes)
                messages = self._at(indexes)
                self.arrivals.append(Arrival(subscription.main, source, messages, soonest))
                yield Taker(source.number, indexes, instants)
        for why, failed in self._dead.items():
            if not self._topic.has(why.subscription):
                continue
            # Several rules may have failed alike, and what is in as it came need not be told.
            taken = self._taken.get(why.subscription, ())
            indexes = [at for at in dict.fromkeys(failed) if at not in taken]
            if indexes:
                dead_letters = why.subscription.sub_queues[SubQueue.DEAD_LETTER]
                source = dead_letters.sources[fragment]
                self.arrivals.append(Arrival(dead_letters, source, self._at(indexes)))
                yield Taker(source.number, indexes, [None] * len(indexes), why.marks)

    def _at(self, indexes: Sequence[int]) -> Sequence[Message]:
        if len(indexes) == len(self._messages):
            return self._messages
        return [self._messages[at] for at in indexes]


class _Expiries:
    """When messages expire, the same for all subscriptions with one time to live."""

    def __init__(self, messages: Sequence[Message], now: Instant) -> None:
        self._messages = messages
        self._now = now
        self._has_own = any(message.time_to_live_ms is not None for message in messages)

    def of(
        self, subscription: ServedSubscription, indexes: Sequence[int]
    ) -> tuple[Sequence[Instant | None], Instant | None]:
        """Return the instant of each, and the first of all."""
        if not self._has_own and subscription.time_to_live_ms is None:
            return [None] * len(indexes), None
        instants = [expiry_of(self._messages[at], subscription, self._now) for at in indexes]
        return instants, min((each for each in instants if each is not None), default=None)
