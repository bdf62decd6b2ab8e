"""What writers ask for: that stages become messages, or that they are forgotten."""

from typing import Final

from bendybus.broker.abandon_stages import abandon_stages
from bendybus.broker.publish_staged import publish_staged
from bendybus.broker.served_queue import ServedQueue
from bendybus.flight.asked import Asked, KnownAction, Told
from bendybus.flight.body import ADDRESS_FIELDS
from bendybus.flight.writing import writable
from bendybus.model.addresses import Address

# As many tasks as a batch may have.
STAGES_MAX: Final = 100_000
_FIELDS: Final = (*ADDRESS_FIELDS, "writer", "batch", "stages")


async def _publish(asked: Asked) -> Told:
    body = asked.body
    published = await publish_staged(
        await _written(asked, body.address()),
        body.text("writer"),
        body.number("batch"),
        body.texts("stages", STAGES_MAX),
        asked.desk.stages_under_way,
        asked.clock,
    )
    return published._asdict()


async def _abandon(asked: Asked) -> Told:
    body = asked.body
    await abandon_stages(
        await _written(asked, body.address()),
        body.text("writer"),
        body.texts("stages", STAGES_MAX),
        asked.desk.stages_under_way,
        asked.clock,
    )
    return {}


async def _written(asked: Asked, address: Address) -> ServedQueue:
    return await writable(asked.desk, asked.call, address)


WRITER_ACTIONS: Final = {
    "publish": KnownAction(
        "Let the stages of a batch become messages, once however often it is asked for.",
        _FIELDS,
        _publish,
        is_long=True,
    ),
    "abandon": KnownAction("Forget stages that will not be published.", _FIELDS, _abandon),
}
