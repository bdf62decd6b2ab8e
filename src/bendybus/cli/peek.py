"""`bendybus peek`: messages looked at, by state, property, content and time."""

import itertools
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Annotated, Final

import typer

from bendybus.cli.conditions import compiled_condition
from bendybus.cli.connected import connected
from bendybus.cli.failure import CommandFailed
from bendybus.cli.json_path import parse_json_path
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    DeadLetterOption,
    EntityArgument,
    FilterOption,
    Output,
    OutputOption,
    SubscriptionOption,
)
from bendybus.cli.progress import shown_count
from bendybus.cli.shown_message import show
from bendybus.client.blocking import Receiver
from bendybus.client.merged_peek import MergedPeek
from bendybus.client.message import MessageState, ReceivedMessage
from bendybus.client.received_view import ReceivedView
from bendybus.model.ids import SubQueue
from bendybus.model.sql_values import FilterFailed

PAGE: Final = 250

Test = Callable[[ReceivedMessage], bool]


class PeekedState(StrEnum):
    """Which messages are meant."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    DEAD_LETTER = "dead-letter"


def peek(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    state: Annotated[
        PeekedState | None, typer.Option(help="Only messages of this state; locked are active.")
    ] = None,
    condition: FilterOption = None,
    json_path: Annotated[
        str | None,
        typer.Option(
            help="Only bodies of JSON for which this is true, such as '$.order.total > 100'."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="At most so many.")] = 10,
    from_sequence: Annotated[
        int, typer.Option("--from", min=0, help="From this sequence number on.")
    ] = 0,
    is_merged: Annotated[
        bool,
        typer.Option("--merged", help="All fragments together, by the time they were enqueued."),
    ] = False,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Look at messages without touching them: active, locked, deferred and scheduled ones.

    bendybus peek orders --count 3

    bendybus peek telemetry --merged --state scheduled

    bendybus peek orders --state dead-letter --filter "DeadLetterReason LIKE 'TTL%'"

    bendybus peek orders --json-path '$.items[*].sku = "a-7"' --output json
    """
    if is_merged and from_sequence:
        raise CommandFailed("--merged goes by time, --from by number: use one of them")
    tests = list(_tests(state, condition, json_path))
    is_dead_letter = is_dead_letter or state is PeekedState.DEAD_LETTER
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    with (
        connected(connection_string, authority) as client,
        client.receiver(entity, subscription=subscription, sub_queue=sub_queue) as receiver,
        shown_count("looked at", is_shown=bool(tests)) as note,
    ):
        page = min(count, PAGE) if not tests else PAGE
        passes = _noting(tests, note)
        messages = (
            _merged(receiver, MergedPeek(count, passes))
            if is_merged
            else filter(passes, _walk(receiver, from_sequence, page))
        )
        for message in islice(messages, count):
            show(message, output)


def _tests(
    state: PeekedState | None, condition: str | None, json_path: str | None
) -> Iterator[Test]:
    if state is not None and state is not PeekedState.DEAD_LETTER:
        wanted = MessageState[state.name]
        yield lambda message: message.state is wanted
    compiled = compiled_condition(condition)
    if compiled is not None:

        def holds(message: ReceivedMessage) -> bool:
            try:
                return compiled.matches(ReceivedView(message))
            except FilterFailed:
                return False

        yield holds
    if json_path is not None:
        path = parse_json_path(json_path)
        yield lambda message: path.matches(message.body)


def _noting(tests: list[Test], note: Callable[[int], None]) -> Test:
    """Return a test of all, which tells how many messages it has looked at."""
    looked_at = itertools.count(1)

    def passes(message: ReceivedMessage) -> bool:
        note(next(looked_at))
        return all(test(message) for test in tests)

    return passes


def _walk(receiver: Receiver, from_sequence: int, page: int) -> Iterator[ReceivedMessage]:
    """Yield messages in the order of their numbers."""
    while some := receiver.peek(page, from_sequence):
        yield from some
        from_sequence = (some[-1].sequence_number or 0) + 1


def _merged(receiver: Receiver, merged: MergedPeek) -> Iterator[ReceivedMessage]:
    """Yield messages of all fragments together, the oldest first."""
    while True:
        while (wanted := merged.wanted()) is not None:
            merged.take(receiver.peek(merged.page, wanted))
        message = merged.next()
        if message is None:
            return
        yield message
