"""The examples that users are given, run as they stand, by the official client."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.command import SECONDS_MAX, Serving, environment, serving

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "namespace.yaml"

RECEIVE = """
from azure.servicebus import ServiceBusClient
with ServiceBusClient.from_connection_string("{text}") as client:
    with client.get_queue_receiver("orders", max_wait_time=30) as receiver:
        [message] = receiver.receive_messages(1)
        receiver.complete_message(message)
        print(message)
"""


def python(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def printed_connection_string(broker: Serving) -> str:
    [text, *_] = re.findall(r"Endpoint=\S+;", broker.announcement)
    return str(text)


def test_the_three_printed_lines_send_a_message_that_outlives_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        lines = broker.announcement.partition("azure-servicebus):\n")[2].splitlines()
        python("\n".join(line[2:] for line in lines))
        assert broker.end(signal.SIGINT)[0] == 0
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        received = python(RECEIVE.format(text=printed_connection_string(broker)))
    assert received == "hello\n"


def test_the_python_of_the_start_page_sends_and_receives(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "start.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        # The page has the usual port; the test must not need it to be free.
        endpoint = f"sb://localhost:{broker.ready['amqp_port']};"
        assert "sb://localhost;" in program
        output = python(program.replace("sb://localhost;", endpoint))
    assert sorted(output.split("\n")) == sorted([*(f"reading {n}" for n in range(100)), ""])
