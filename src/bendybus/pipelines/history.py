"""The subscription by which all that is sent to a topic can be captured."""

import ssl
from typing import Final

from bendybus.atom.properties import Kind
from bendybus.client.administration import Administration
from bendybus.client.errors import ClientError, EntityExists, EntityNotFound
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.options import BusOptions

HISTORY: Final = "history"


def make_history(
    options: BusOptions, management_url: str | None, topic: str, name: str | None
) -> str:
    """Make a subscription that gets every message of a topic, unless it is there; return its name.

    What other subscriptions complete stays in this one until it is captured.
    """
    tls = ssl.create_default_context(cafile=options.authority) if options.authority else None
    namespace = Administration.from_connection_string(
        options.connection_string, management_url, tls
    )
    subscription = name or HISTORY
    try:
        namespace.show(Kind.TOPIC, topic)
        namespace.create(Kind.SUBSCRIPTION, subscription, {}, topic=topic)
    except EntityExists:
        pass
    except EntityNotFound as error:
        raise PipelineFailed(
            f"{error}; --keep-history is for topics. To keep what is sent to a queue, have it sent"
            " to a topic that forwards to the queue: see docs/pipelines.md"
        ) from None
    except ClientError as error:
        raise PipelineFailed(f"cannot make the subscription {subscription}: {error}") from None
    return subscription
