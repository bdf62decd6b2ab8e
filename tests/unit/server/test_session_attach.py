"""What a client asks for when it asks for a session."""

import pytest

from bendybus.amqp.values import Symbol, Uint
from bendybus.server.session_attach import session_wish
from tests.protocol.messaging.session_links import TIMEOUT, asking


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        pytest.param(None, 65, id="as long as the service waits"),
        pytest.param({Symbol("com.microsoft:entity-type"): 1}, 65, id="nothing said of it"),
        pytest.param({TIMEOUT: "70"}, 65, id="no number"),
        pytest.param({TIMEOUT: Uint(70_000)}, 70, id="longer than that"),
        pytest.param({TIMEOUT: Uint(10_000)}, 10, id="shorter"),
        pytest.param({TIMEOUT: Uint(0)}, 0.1, id="at least as long as stores take"),
    ],
)
def test_a_client_waits_for_the_next_session_as_long_as_it_says(
    properties: dict[object, object] | None, seconds: float
) -> None:
    wish = session_wish(asking("orders", None, properties=properties))
    assert wish is not None
    assert wish.seconds == seconds
