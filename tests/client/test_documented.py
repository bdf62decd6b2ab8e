"""The examples on the client's page run, and the page names every error."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bendybus.client import Message, errors
from tests.client.conftest import Served
from tests.client.scripted_broker import ScriptedBroker
from tests.client.scripted_server import serving_script

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
# What this broker does not serve yet is shown against a scripted one.
SCRIPTED = re.compile(r"transaction\(|accept_session\(")


async def run(example: str, connection_string: str) -> None:
    """Run an example as a program of its own, in a thread because it blocks."""
    names = {"connection_string": connection_string, "__name__": "example"}
    code = compile(example, str(PAGE), "exec")
    await asyncio.to_thread(exec, code, names)


@pytest.mark.parametrize("example", [each for each in EXAMPLES if not SCRIPTED.search(each)])
async def test_an_example_leaves_nothing_in_its_queue(example: str, served: Served) -> None:
    await run(example, served.connection_string())
    assert await served.count("orders") == 0


@pytest.mark.parametrize(
    ("word", "was_done"),
    [
        ("transaction(", lambda broker: len(broker.transactions) == 2),
        ("accept_session(", lambda broker: len(broker.detached) == 1),
    ],
)
async def test_an_example_of_what_is_scripted_does_what_it_says(
    word: str, was_done: Callable[[ScriptedBroker], bool]
) -> None:
    def stocked() -> ScriptedBroker:
        broker = ScriptedBroker()
        broker.to_deliver.append(Message(b"order").encode())
        return broker

    [example] = [each for each in EXAMPLES if word in each]
    async with serving_script(stocked) as server:
        await run(example, server.connection_string())
        assert was_done(server.brokers[0])


def test_every_error_is_on_the_page() -> None:
    names = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.ClientError)
    }
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
