"""Who forwards to an entity sends to it, and must be allowed to."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from bendybus.atom.properties import Kind
from bendybus.model.access import AccessRule, Right, make_sas
from tests.http.managing import IF_ANY, VERSION, Administrator, managing, request_body, subcode

FIELDS = {
    "forward_to": "ServiceBusSupplementaryAuthorization",
    "forward_dead_lettered_messages_to": "ServiceBusDlqSupplementaryAuthorization",
}
OWN_KEY, TARGET_KEY = "the-key-of-the-queue-alone", "the-key-of-the-target-alone"


@pytest.fixture
async def administrator(tmp_path: Path) -> AsyncIterator[Administrator]:
    own = AccessRule("own", OWN_KEY, frozenset(Right))
    send = AccessRule("send", TARGET_KEY, frozenset({Right.SEND}))
    listen = AccessRule("listen", OWN_KEY, frozenset({Right.LISTEN}))
    async with managing(tmp_path) as administrator:
        await administrator.create("/q", Kind.QUEUE, authorization_rules=(own,))
        await administrator.create("/target", Kind.QUEUE, authorization_rules=(send, listen))
        yield administrator


def token(administrator: Administrator, entity: str, rule: str, key: str) -> str:
    now = datetime.fromtimestamp(administrator.clock.now() / 1000, UTC)
    return make_sas(f"http://localhost/{entity}", rule, key, now + timedelta(minutes=5))


async def forward(
    administrator: Administrator, field: str, headers: dict[str, str]
) -> httpx.Response:
    """Change the queue with the key of the queue alone."""
    own = token(administrator, "q", "own", OWN_KEY)
    return await administrator.http.put(
        f"/q?{VERSION}",
        content=request_body(Kind.QUEUE, **{field: "target"}),
        headers={**IF_ANY, "Authorization": own, **headers},
    )


@pytest.mark.parametrize(("field", "header"), FIELDS.items())
async def test_the_key_of_a_queue_needs_another_for_its_target(
    administrator: Administrator, field: str, header: str
) -> None:
    queue = administrator.broker.queue("q")
    assert subcode(await forward(administrator, field, {})) == "401/40103"
    other = token(administrator, "q", "own", OWN_KEY)
    assert subcode(await forward(administrator, field, {header: other})) == "401/40103"
    listening = token(administrator, "target", "listen", OWN_KEY)
    assert subcode(await forward(administrator, field, {header: listening})) == "401/40100"
    assert getattr(queue.properties, field) is None
    sending = token(administrator, "target", "send", TARGET_KEY)
    assert (await forward(administrator, field, {header: sending})).status_code == 200
    assert getattr(queue.properties, field) == "target"


async def test_a_target_that_is_there_already_needs_no_further_key(
    administrator: Administrator,
) -> None:
    await administrator.update("/q", Kind.QUEUE, forward_to="target")
    assert (await forward(administrator, "forward_to", {})).status_code == 200


async def test_a_key_of_the_namespace_is_enough(administrator: Administrator) -> None:
    answer = await administrator.update("/q", Kind.QUEUE, forward_to="target")
    assert answer.status_code == 200
