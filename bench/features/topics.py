"""One topic with many subscriptions beside one queue: sends, and bytes on disk."""

from collections.abc import Iterator
from pathlib import Path

from bench.features.load import Marks
from bench.features.stage import Stage, in_turns, warm_up
from bench.readings import Figure, Reading
from bench.scenarios import MEGABYTE
from bench.subject_bendybus import Properties


def topics(stage: Stage) -> Iterator[Reading]:
    """At every size of body: what is stored once and what is stored for each weigh differently."""
    for body_bytes in stage.size.body_bytes:
        yield from topic_beside_queue(stage, body_bytes)


def topic_beside_queue(stage: Stage, body_bytes: int) -> Iterator[Reading]:
    """Send the same to both, then stop both and see what they keep.

    Every subscription takes every message and nobody receives, so the topic has as many times the
    queue's messages as it has subscriptions.
    """
    count = stage.amounts.slice
    names = [f"subscription-{number}" for number in range(stage.amounts.subscriptions)]
    subscriptions: dict[str, list[Properties]] = {name: [] for name in names}
    with (
        stage.topic(f"topic-{body_bytes}", subscriptions) as topic,
        stage.queue(f"queue-{body_bytes}") as queue,
    ):
        warm_up(topic, queue)

        def to_topic(number: int) -> Iterator[Reading]:
            yield topic.measured_fill(Figure.TOPIC_SEND, count, Marks(f"{number}-"), body_bytes)

        def to_queue(number: int) -> Iterator[Reading]:
            yield queue.measured_fill(Figure.NO_TOPIC_SEND, count, Marks(f"{number}-"), body_bytes)

        yield from in_turns(stage.amounts.repeats, to_topic, to_queue)
    for side, figure in ((topic, Figure.TOPIC_STORED), (queue, Figure.NO_TOPIC_STORED)):
        stored = stored_bytes(side.folder / "data")
        yield side.reading(figure, stored / MEGABYTE, body_bytes=body_bytes)


def stored_bytes(folder: Path) -> int:
    """Bytes on disk of all files; of a stopped broker, so that no log waits to be folded in."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
