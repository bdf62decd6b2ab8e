"""A queue with sessions beside one without; few sessions beside many."""

from collections.abc import Iterator

from bench.features.load import (
    Marks,
    accept_wait_ms,
    receive_by_several,
    receive_in_sessions,
)
from bench.features.stage import Side, Stage, in_turns
from bench.processes import with_cpu_shares
from bench.readings import Figure, Reading
from bench.scenarios import NO_BODY


def sessions(stage: Stage) -> Iterator[Reading]:
    """As many receivers on both sides take as many messages."""
    amounts = stage.amounts
    count = amounts.sessions * amounts.messages_per_session
    with (
        stage.queue("sessions", RequiresSession=True) as with_sessions,
        stage.queue("plain") as without,
    ):

        def in_sessions(number: int) -> Iterator[Reading]:
            with_sessions.fill(count, Marks(f"{number}-", sessions=amounts.sessions))
            rate, cpu = with_cpu_shares(
                with_sessions.broker.pid, lambda: receive_in_sessions(with_sessions, count)
            )
            yield with_sessions.reading(Figure.SESSIONS_RECEIVE, rate, cpu=cpu)

        def in_none(number: int) -> Iterator[Reading]:
            without.fill(count, Marks(f"{number}-"))
            rate, cpu = with_cpu_shares(
                without.broker.pid, lambda: receive_by_several(without, count)
            )
            yield without.reading(Figure.NO_SESSIONS_RECEIVE, rate, cpu=cpu)

        yield from in_turns(stage.amounts.repeats, in_sessions, in_none)


def accepting(stage: Stage) -> Iterator[Reading]:
    """How long the next session takes when few and when many have a message."""
    amounts = stage.amounts
    with (
        stage.queue("few", RequiresSession=True) as few,
        stage.queue("many", RequiresSession=True) as many,
    ):
        for side, count in ((few, amounts.sessions_few), (many, amounts.sessions_many)):
            side.fill(count, Marks("", sessions=count))

        def accept(side: Side, figure: Figure) -> Iterator[Reading]:
            wait_ms = accept_wait_ms(side, amounts.accepts)
            yield side.reading(figure, wait_ms, body_bytes=NO_BODY)

        yield from in_turns(
            stage.amounts.repeats,
            lambda _: accept(few, Figure.ACCEPT_FEW),
            lambda _: accept(many, Figure.ACCEPT_MANY),
        )
