"""`bendybus redrive`: dead letters are tried again, by the native client."""

from typing import Annotated

import typer

from bendybus.cli.age import moment_before
from bendybus.cli.conditions import compiled_condition, compiled_edit
from bendybus.cli.connected import connected
from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    DryRunOption,
    EntityArgument,
    FilterOption,
    NewerOption,
    OlderOption,
    Output,
    OutputOption,
    SubscriptionOption,
)
from bendybus.cli.progress import report, shown_progress
from bendybus.cli.redrive_by_hand import ByHand
from bendybus.client.blocking import Client
from bendybus.client.errors import NotServed
from bendybus.client.going_through import Progress
from bendybus.client.redriving import Redrive
from bendybus.model.ids import SubQueue

ToOption = Annotated[
    str | None,
    typer.Option("--to", help="Another queue or topic that they go to.", metavar="ENTITY"),
]
ForwardedOption = Annotated[
    bool,
    typer.Option(
        "--forwarded",
        help="Dead letters of others that were forwarded to this queue: each goes back to the"
        " entity it came from.",
    ),
]
TransferOption = Annotated[
    bool, typer.Option("--transfer", help="What could not be delivered to others goes out again.")
]
ReasonOption = Annotated[str | None, typer.Option(help="Only those with this dead-letter reason.")]
FromOption = Annotated[int, typer.Option("--from", min=0, help="From this sequence number on.")]
UntilOption = Annotated[
    int | None, typer.Option("--until", min=0, help="Up to this sequence number.")
]
CountOption = Annotated[int | None, typer.Option(min=1, help="At most so many.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help='Change a property, such as "retried = TRUE"; may repeat.'),
]
RemoveOption = Annotated[
    list[str] | None, typer.Option("--remove", help="Take a property away; may repeat.")
]
DuplicatesOption = Annotated[
    bool,
    typer.Option(
        "--allow-duplicates",
        help="At another service that has no transactions for this: a message may be there twice"
        " if it is cut off.",
    ),
]
RateOption = Annotated[float | None, typer.Option(min=0.001, help="At most so many a second.")]


def redrive(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    to: ToOption = None,
    is_forwarded: ForwardedOption = False,
    is_transfer: TransferOption = False,
    condition: FilterOption = None,
    reason: ReasonOption = None,
    older_than: OlderOption = None,
    newer_than: NewerOption = None,
    from_sequence: FromOption = 0,
    until_sequence: UntilOption = None,
    count: CountOption = None,
    sets: SetOption = None,
    removes: RemoveOption = None,
    rate: RateOption = None,
    is_dry_run: DryRunOption = False,
    may_double: DuplicatesOption = False,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Try dead letters again: they go back to their queue or subscription, or to another.

    Each is moved in one step, so nothing is lost or doubled: stop it or kill it at any moment, and
    run it again for the rest. A message keeps its content and gets a new sequence number; its
    deliveries are counted anew. What somebody holds stays, and is reported.

        bendybus redrive orders --dry-run

        bendybus redrive orders --reason MaxDeliveryCountExceeded --newer-than 2h --rate 100

        bendybus redrive news --subscription mails --filter "customer = 'c-7'"

        bendybus redrive orders --to orders-slow --set "retried = TRUE" --remove attempt
    """
    if is_forwarded and (to is not None or is_transfer or subscription is not None):
        raise CommandFailed("--forwarded is for a queue, and says where messages go: use it alone")
    compiled_condition(condition)
    wish = Redrive(
        filter=condition,
        reason=reason,
        enqueued_since=moment_before(newer_than, "--newer-than"),
        enqueued_until=moment_before(older_than, "--older-than"),
        from_sequence=from_sequence,
        until_sequence=until_sequence,
        count=count,
        edit=_edit(sets or [], removes or []),
        to=to,
        to_source=is_forwarded,
        rate=rate,
        dry_run=is_dry_run,
    )
    place = entity, subscription, _sub_queue(is_forwarded, is_transfer)
    with connected(connection_string, authority) as client:
        done = _redriven(client, place, wish, may_double)
    report(done, "would be redriven" if is_dry_run else "redriven", output)


def _redriven(
    client: Client, place: tuple[str, str | None, SubQueue], wish: Redrive, may_double: bool
) -> Progress:
    """Have it done by the service, or else do it by hand."""
    entity, subscription, sub_queue = place
    with shown_progress("redriving") as show:
        try:
            return client.redrive(
                entity, wish, subscription=subscription, sub_queue=sub_queue, on_progress=show
            )
        except NotServed:
            return ByHand(client, wish, may_double=may_double).run(*place, show)


def _sub_queue(is_forwarded: bool, is_transfer: bool) -> SubQueue:
    """Say where the dead letters lie."""
    if is_forwarded:
        return SubQueue.MAIN
    return SubQueue.TRANSFER_DEAD_LETTER if is_transfer else SubQueue.DEAD_LETTER


def _edit(sets: list[str], removes: list[str]) -> str | None:
    """Write the edit as the action of a rule."""
    statements = [f"SET {each}" for each in sets] + [f"REMOVE {each}" for each in removes]
    edit = "; ".join(statements) or None
    compiled_edit(edit)
    return edit
