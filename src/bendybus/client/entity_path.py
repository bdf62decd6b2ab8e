"""How an entity is addressed on the wire."""

from typing import Final

from bendybus.model.ids import SubQueue

_SUFFIXES: Final = {
    SubQueue.MAIN: "",
    SubQueue.DEAD_LETTER: "/$DeadLetterQueue",
    SubQueue.TRANSFER_DEAD_LETTER: "/$Transfer/$DeadLetterQueue",
}


def entity_path(
    name: str, subscription: str | None = None, sub_queue: SubQueue = SubQueue.MAIN
) -> str:
    """Return the address of a queue, or of a topic's subscription, or of a sub-queue of either."""
    below = "" if subscription is None else f"/Subscriptions/{subscription}"
    return f"{name}{below}{_SUFFIXES[sub_queue]}"
