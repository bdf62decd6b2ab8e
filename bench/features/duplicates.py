"""Duplicate detection with a full window beside the same queue without it."""

from collections.abc import Iterator

from bench.features.load import Marks
from bench.features.stage import Side, Stage, in_turns
from bench.readings import Figure, Reading

# Longer than the scenario takes: no id leaves the window meanwhile.
WINDOW = "PT1H"


def duplicates(stage: Stage) -> Iterator[Reading]:
    """Fill both queues alike, then send on; no id comes twice."""
    amounts = stage.amounts
    with (
        stage.queue(
            "on", RequiresDuplicateDetection=True, DuplicateDetectionHistoryTimeWindow=WINDOW
        ) as on,
        stage.queue("off") as off,
    ):
        for side in (on, off):
            side.fill(amounts.ids_in_window, Marks("before-"))

        def send(side: Side, figure: Figure, number: int) -> Iterator[Reading]:
            yield side.measured_fill(figure, amounts.slice, Marks(f"{number}-"))

        yield from in_turns(
            stage.amounts.repeats,
            lambda number: send(on, Figure.DUPLICATES_SEND, number),
            lambda number: send(off, Figure.NO_DUPLICATES_SEND, number),
        )
