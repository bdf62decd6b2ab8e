"""`bendybus serve`, from its first line to its end."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SECONDS_MAX, environment, run, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "namespace.yaml"


def without_ports(text: str, ready: dict[str, int]) -> str:
    return text.replace(str(ready["amqp_port"]), "AMQP").replace(str(ready["http_port"]), "HTTP")


def test_it_prints_where_it_is_what_it_has_and_how_to_begin(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        text, amqp_port = broker.announcement, broker.ready["amqp_port"]
    assert (
        f"Endpoint=sb://localhost:{amqp_port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;\n"
    ) in text
    assert "orders     queue, conventional, 1 GB" in text
    assert "telemetry  queue, partitioned over 16 fragments, 16 GB in all" in text
    example = text.partition("azure-servicebus):\n")[2].splitlines()
    assert len(example) == 3
    compile("\n".join(line[2:] for line in example), "example", "exec")


def test_a_second_start_prints_the_same(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        with serving(tmp_path, "--config", EXAMPLE) as broker:
            texts.append(without_ports(broker.announcement, broker.ready))
            assert broker.end(signal.SIGTERM)[0] == 0
    assert texts[0] == texts[1]


def test_the_printed_ports_answer(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        assert broker.ready["pid"] == broker.process.pid
        for port in (broker.ready["amqp_port"], broker.ready["http_port"]):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
        url = f"http://127.0.0.1:{broker.ready['http_port']}"
        listed = run("store", "list", "--management-url", url)
        assert listed.returncode == 0
        assert listed.stdout.count("online") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as broker:
        assert (tmp_path / "ready.json").exists()
        code, errors = broker.end(number)
    assert (code, errors) == (0, "Stopping; once more ends it at once.\n")
    assert not (tmp_path / "ready.json").exists()


def test_a_signal_stops_it_also_when_nobody_reads_what_it_says(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        for stream in (broker.process.stdout, broker.process.stderr):
            assert stream is not None
            stream.close()
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(timeout=SECONDS_MAX) == 0
    assert not (tmp_path / "ready.json").exists()


def test_a_second_signal_ends_it_at_once() -> None:
    program = (
        "import asyncio, signal\n"
        "from bendybus.cli.serve import _stop_or_end\n"
        "stop = asyncio.Event()\n"
        "_stop_or_end(stop, signal.SIGINT)\n"
        "assert stop.is_set()\n"
        "_stop_or_end(stop, signal.SIGINT)\n"
        "print('still here')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (result.returncode, result.stdout) == (130, "")


def test_a_second_broker_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        second = run(
            "serve",
            "--data",
            tmp_path / "data",
            "--amqp-port",
            "0",
            "--http-port",
            "0",
            "--flight-port",
            "0",
            "--stores",
            "2",
        )  # fmt: skip - one option per pair reads better
        assert second.returncode == 1
        assert second.stdout == ""
        [line] = second.stderr.splitlines()
        assert str(tmp_path / "data") in line
        assert broker.process.poll() is None


@pytest.mark.parametrize("taken", ["--amqp-port", "--http-port", "--flight-port"])
def test_a_taken_port_is_refused_in_one_line(tmp_path: Path, taken: str) -> None:
    ports = {"--amqp-port": "0", "--http-port": "0", "--flight-port": "0"}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports[taken] = str(listener.getsockname()[1])
        options = [word for pair in ports.items() for word in pair]
        result = run("serve", "--data", tmp_path, *options, "--stores", "2")
    assert (result.returncode, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert taken in line


def test_a_key_of_ones_own_is_not_printed(tmp_path: Path) -> None:
    key = "my-own-key-of-some-length"
    with serving(tmp_path, BENDYBUS_KEY=key) as broker:
        assert key not in broker.announcement
        assert "SharedAccessKey=<your key>;" in broker.announcement
        url = f"http://127.0.0.1:{broker.ready['http_port']}"
        own = f"Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={key}"
        opened = run("store", "list", "--management-url", url, "--connection-string", own)
        assert opened.returncode == 0
        assert run("store", "list", "--management-url", url).returncode == 1
