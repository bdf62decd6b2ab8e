"""`bendybus purge`: messages deleted unread, by the native client."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from bendybus.cli.age import moment_before
from bendybus.cli.conditions import compiled_condition
from bendybus.cli.confirmed import confirm
from bendybus.cli.connected import connected
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    DeadLetterOption,
    DryRunOption,
    EntityArgument,
    FilterOption,
    NewerOption,
    OlderOption,
    Output,
    OutputOption,
    SubscriptionOption,
    YesOption,
)
from bendybus.cli.progress import report, shown_count, shown_progress
from bendybus.client.blocking import Receiver
from bendybus.client.going_through import Progress
from bendybus.client.managing import DELETED_PER_CALL_MAX, LAST_MOMENT
from bendybus.client.message import MessageState
from bendybus.client.purging import Purge
from bendybus.model.ids import SubQueue


class PurgedState(StrEnum):
    """Which messages are meant."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"


def purge(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    state: Annotated[PurgedState, typer.Option(help="Which messages.")] = PurgedState.ACTIVE,
    condition: FilterOption = None,
    older_than: OlderOption = None,
    newer_than: NewerOption = None,
    count: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    is_dry_run: DryRunOption = False,
    is_confirmed: YesOption = False,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete messages that are there now, unread. Locked ones stay.

    bendybus purge orders --dead-letter --older-than 7d --dry-run

    bendybus purge telemetry --filter "sensor = 's-7'" --yes

    bendybus purge orders --state scheduled --yes
    """
    compiled_condition(condition)
    place = f"the dead letters of {entity}" if is_dead_letter else entity
    chosen = (condition, older_than, newer_than, count)
    which = "all" if all(each is None for each in chosen) else "those"
    confirm(f"{which} {state} messages of {place}", is_confirmed=is_confirmed or is_dry_run)
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    wish = Purge(
        state=MessageState[state.name],
        filter=condition,
        enqueued_since=moment_before(newer_than, "--newer-than"),
        enqueued_until=moment_before(older_than, "--older-than"),
        count=count,
        dry_run=is_dry_run,
    )
    with connected(connection_string, authority) as client:
        if condition is None and newer_than is None and count is None and not is_dry_run:
            # Any Service Bus can do this, and without looking at the messages.
            receiver = client.receiver(entity, subscription=subscription, sub_queue=sub_queue)
            done = _all(receiver, wish)
        else:
            with shown_progress("deleting") as show:
                done = client.purge(
                    entity, wish, subscription=subscription, sub_queue=sub_queue, on_progress=show
                )
    report(done, "would be deleted" if is_dry_run else "deleted", output)


def _all(receiver: Receiver, wish: Purge) -> Progress:
    """Delete all messages of a state, up to a time."""
    # What comes meanwhile stays; a scheduled message counts as enqueued when it is due.
    now = LAST_MOMENT if wish.state is MessageState.SCHEDULED else datetime.now(UTC)
    until = wish.enqueued_until or now
    progress = Progress()
    with shown_count("deleted", is_shown=True) as note:
        while some := receiver.delete(DELETED_PER_CALL_MAX, until=until, state=wish.state):
            progress.done += some
            note(progress.done)
    return progress
