"""abandon stages: what a writer brought and will not publish is forgotten."""

from collections.abc import Sequence

from bendybus.broker.clock import Clock
from bendybus.broker.publish_staged import stage_number
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import home_of
from bendybus.broker.stages_under_way import StagesUnderWay
from bendybus.model.staging import AbandonStages


async def abandon_stages(
    queue: ServedQueue,
    writer: str,
    stages: Sequence[str],
    under_way: StagesUnderWay,
    clock: Clock,
) -> None:
    """Forget stages, unless it is decided that they are published."""
    queue.check_there()
    home = home_of(queue, writer)
    abandon = AbandonStages(home.writer, [stage_number(stage) for stage in stages])
    if not home.source.store.is_online:
        raise queue.unavailable(home.source)
    await home.source.store.apply([abandon], now=clock.now())
    under_way.note(home.source.store)
