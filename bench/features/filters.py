"""A filter by itself, and topics with few and with many correlation filters."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from bench.features.load import Marks
from bench.features.stage import Side, Stage, in_turns, warm_up
from bench.readings import Figure, Reading, Subject
from bench.scenarios import NO_BODY
from bench.subject_bendybus import Properties
from bendybus.model.filters import compile_filter
from bendybus.model.message_view import fold_names
from bendybus.model.rule import SqlFilter

IN_PROCESS: Final = "bendybus in process"
# Both comparisons are true of the message, so that both are made.
EXPRESSION: Final = "Color = 'red' AND Quantity > 10"
PROPERTIES: Final = {"Color": "red", "Quantity": 12, "Country": "PT"}


@dataclass(frozen=True, slots=True)
class PropertiesOnly:
    """A message as a filter sees it."""

    user: Mapping[str, object]

    def system(self, name: str) -> object:
        """None of the system's properties are asked for."""
        raise AssertionError(name)


def sql_filter(stage: Stage) -> Iterator[Reading]:
    """Evaluations a second of processor time of a typical filter, in this process."""
    asked = compile_filter(SqlFilter(EXPRESSION), new_id=uuid4)
    view, count = PropertiesOnly(fold_names(PROPERTIES)), stage.amounts.filter_evaluations
    assert asked.matches(view)
    for _ in range(stage.amounts.repeats):
        begun = time.thread_time()
        for _ in range(count):
            asked.matches(view)
        seconds = time.thread_time() - begun
        yield Reading(Subject(Figure.SQL_FILTER, IN_PROCESS, NO_BODY), count / seconds)


def correlations(stage: Stage) -> Iterator[Reading]:
    """Every message passes the filter of one subscription, in turns over all of them."""
    amounts = stage.amounts
    few_count, many_count = amounts.subscriptions, amounts.subscriptions_many
    with (
        stage.topic("few", correlated(few_count)) as few,
        stage.topic("many", correlated(many_count)) as many,
    ):
        warm_up(few, many)

        def send(side: Side, figure: Figure, marks: Marks) -> Iterator[Reading]:
            yield side.measured_fill(figure, amounts.slice, marks)

        yield from in_turns(
            stage.amounts.repeats,
            lambda number: send(
                few, Figure.CORRELATIONS_FEW_SEND, Marks(f"{number}-", subjects=few_count)
            ),
            lambda number: send(
                many, Figure.CORRELATIONS_MANY_SEND, Marks(f"{number}-", subjects=many_count)
            ),
        )


def correlated(count: int) -> Mapping[str, list[Properties]]:
    """Subscriptions that each let in the messages with one subject."""
    return {f"subscription-{number}": [correlation_rule(number)] for number in range(count)}


def correlation_rule(number: int) -> Properties:
    """A rule as the configuration has it; the subject is called label there."""
    label = {"Label": f"subject-{number}"}
    return {
        "Name": "by-subject",
        "Properties": {"FilterType": "Correlation", "CorrelationFilter": label},
    }
