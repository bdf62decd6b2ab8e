"""`bendybus receive`: messages printed, and settled or not."""

import sys
from enum import StrEnum
from typing import Annotated, Final

import typer

from bendybus.cli.connected import connected
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    DeadLetterOption,
    EntityArgument,
    Output,
    OutputOption,
    SubscriptionOption,
)
from bendybus.cli.shown_message import show
from bendybus.client.blocking import Receiver
from bendybus.client.message import ReceivedMessage
from bendybus.model.ids import SubQueue

# How many messages are received before the next are.
TOGETHER: Final = 200


class Settling(StrEnum):
    """What becomes of a message that was printed."""

    COMPLETE = "complete"
    ABANDON = "abandon"
    DEAD_LETTER = "dead-letter"
    DEFER = "defer"
    NONE = "none"


def receive(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    session: Annotated[
        str | None, typer.Option(help='A session, or "" for the next that has messages.')
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Stop when none came for so many seconds.")
    ] = 1.0,
    is_followed: Annotated[
        bool, typer.Option("--follow", help="Never stop; end it with Ctrl-C.")
    ] = False,
    settle: Annotated[
        Settling,
        typer.Option(help="What becomes of a message once it is printed; none: its lock ends."),
    ] = Settling.COMPLETE,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Receive messages, print each on a line, and settle it: by default it is gone then.

    bendybus receive orders --follow

    bendybus receive news --subscription mails --dead-letter --count 10 --settle abandon

    bendybus receive orders --output json > saved.jsonl
    """
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    left = sys.maxsize if count is None else count
    with connected(connection_string, authority) as client:
        if session is not None:
            receiver: Receiver = client.accept_session(
                entity, session or None, subscription=subscription
            )
        else:
            receiver = client.receiver(entity, subscription=subscription, sub_queue=sub_queue)
        with receiver:
            while left > 0:
                some = receiver.receive(min(left, TOGETHER), None if is_followed else wait)
                if not some:
                    break
                left -= len(some)
                for message in some:
                    show(message, output)
                sys.stdout.flush()
                _settle(receiver, some, settle)


def _settle(receiver: Receiver, messages: list[ReceivedMessage], how: Settling) -> None:
    match how:
        case Settling.COMPLETE:
            receiver.complete(messages)
        case Settling.ABANDON:
            receiver.abandon(messages)
        case Settling.DEAD_LETTER:
            receiver.dead_letter(messages, "Rejected", "by bendybus receive --settle dead-letter")
        case Settling.DEFER:
            receiver.defer(messages)
        case Settling.NONE:
            pass
