"""What messages can be received from: queues and subscriptions, conventional and partitioned."""

import pytest

_AT = "/Subscriptions/"


def _each(*always: str, of_proofs: tuple[str, ...]) -> pytest.MarkDecorator:
    rest = [pytest.param(each, marks=pytest.mark.prove) for each in of_proofs]
    return pytest.mark.parametrize("queue", [*always, *rest])


# A subscription is a queue of its topic's kind, so the short run takes the stranger of the two.
PLACES = _each("orders", "parts", "feed/Subscriptions/all", of_proofs=("news/Subscriptions/all",))
SESSION_PLACES = _each(
    "sessions",
    "session-parts",
    of_proofs=("session-news/Subscriptions/all", "session-feed/Subscriptions/all"),
)


def sent_to(place: str) -> str:
    """Return where one sends what comes out at a place: the topic of a subscription."""
    return place.partition(_AT)[0]
