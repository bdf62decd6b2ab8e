"""The page on the bulk door says what there is, and its examples run."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from bendybus.flight.actions import ACTIONS
from bendybus.flight.calls import REQUESTS_MAX, STREAMS_MAX
from bendybus.flight.ticket import TICKET_FIELDS
from tests.flight.bulk_bus import bulk_bus, numbered, plain

PAGE = (Path(__file__).parents[2] / "docs" / "bulk.md").read_text()


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_action_and_every_field_of_a_ticket_is_on_the_page() -> None:
    assert set(re.findall(r"^\| action `(\w+)`", PAGE, re.MULTILINE)) == set(ACTIONS)
    assert {field for field in TICKET_FIELDS if f"`{field}`" not in PAGE} == set()
    assert {
        field for action in ACTIONS.values() for field in action.fields if f"`{field}`" not in PAGE
    } == set()


def test_the_bounds_on_the_page_are_those_that_hold() -> None:
    assert f"| {STREAMS_MAX}; {REQUESTS_MAX} |" in PAGE


def test_the_first_example_is_no_longer_than_it_says() -> None:
    lines = [line for line in examples()[0].splitlines() if line and "import" not in line]
    assert len(lines) <= 10


@pytest.mark.parametrize("at", range(len(examples())))
async def test_an_example_prints_how_many_messages_there_are(tmp_path: Path, at: int) -> None:
    async with bulk_bus(tmp_path) as bus:
        await bus.send("orders", plain(numbered(7)))
        port = bus.door.ports["flight"]
        program = examples()[at].replace("grpc://localhost:5301", f"grpc://localhost:{port}")
        ours = '"SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"'
        program = program.replace(ours, f'{ours}, "grpc://localhost:{port}"')
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert printed.decode() == "7 messages\n"
