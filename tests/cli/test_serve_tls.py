"""`bendybus serve` with a certificate: the doors it opens, the ones it keeps shut, renewals."""

import json
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import HTTPSHandler, build_opener

import pytest

from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from tests.cli.command import run, serving

OWN_KEY = "a-key-of-my-own-that-is-long"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address is the subject
EXAMPLE = Path(__file__).parents[2] / "examples" / "namespace.yaml"
SECONDS_MAX = 20.0
AMQP = b"AMQP\x03\x01\x00\x00"


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, ["localhost"], days=30, now=datetime.now(UTC))
    return made


def options(files: AuthorityFolder) -> list[str | Path]:
    free = ["--amqps-port", "0", "--https-port", "0"]
    return ["--tls-cert", files.server, "--tls-key", files.server_key, *free]


@contextmanager
def calling(files: AuthorityFolder, port: int) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(files.authority))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        yield encrypted


def serial_at(files: AuthorityFolder, port: int) -> object:
    with calling(files, port) as connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]


def greets(connection: socket.socket) -> bool:
    connection.sendall(AMQP)
    return connection.recv(8) == AMQP


def test_both_encrypted_doors_answer_beside_the_plain_ones(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    with serving(tmp_path, *options(files)) as broker:
        ready, text = broker.ready, broker.announcement
        with calling(files, ready["amqps_port"]) as connection:
            assert greets(connection)
        context = ssl.create_default_context(cafile=str(files.authority))
        opener = build_opener(HTTPSHandler(context=context))
        with opener.open(f"https://localhost:{ready['https_port']}/health") as answer:
            assert json.load(answer)["status"] == "healthy"
        with socket.create_connection(("127.0.0.1", ready["amqp_port"]), SECONDS_MAX) as plain:
            assert greets(plain)
        code, _ = broker.end(signal.SIGTERM)
    assert code == 0
    assert f"AMQPS  127.0.0.1:{ready['amqps_port']}\n" in text
    assert f"HTTPS  https://127.0.0.1:{ready['https_port']}/health" in text
    assert f"AMQP   127.0.0.1:{ready['amqp_port']}, not encrypted\n" in text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 must be made first")
def test_beyond_this_machine_only_the_encrypted_doors_are_open(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    host = ["--host", EVERYWHERE]
    with serving(tmp_path, *host, *options(files), BENDYBUS_KEY=OWN_KEY) as broker:
        text, ready = broker.announcement, broker.ready
        # Another address of this machine, which plain doors do not have.
        socket.create_connection(("127.0.0.2", ready["amqps_port"]), SECONDS_MAX).close()
        for port in (ready["amqp_port"], ready["http_port"]):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), SECONDS_MAX)
    assert f"AMQPS  {EVERYWHERE}:" in text
    assert "AMQP   127.0.0.1:" in text
    assert "HTTP   http://127.0.0.1:" in text
    assert f"Endpoint=sb://{socket.gethostname()}:{ready['amqps_port']};" in text
    assert "UseDevelopmentEmulator" not in text


def test_plain_doors_can_be_left_out(files: AuthorityFolder, tmp_path: Path) -> None:
    with serving(tmp_path, "--plain", "never", *options(files)) as broker:
        assert (broker.ready["amqp_port"], broker.ready["http_port"]) == (None, None)
        assert "not encrypted" not in broker.announcement
        with calling(files, broker.ready["amqps_port"]) as connection:
            assert greets(connection)


def test_a_renewed_certificate_is_taken_up_and_open_connections_go_on(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    with serving(tmp_path, *options(files)) as broker:
        port = broker.ready["amqps_port"]
        with calling(files, port) as connection:
            before = serial_at(files, port)
            assert run("cert", "--folder", files.folder, "--renew").returncode == 0
            deadline = time.monotonic() + SECONDS_MAX
            while serial_at(files, port) == before:
                assert time.monotonic() < deadline, "the new certificate was not taken up"
                time.sleep(0.1)
            assert greets(connection)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", EVERYWHERE], "the broker needs a certificate"),
        (["--plain", "never"], "the broker needs a certificate"),
        (["--tls-cert", "x.pem"], "--tls-key is missing"),
        (["--tls-cert", "x.pem", "--tls-key", "y.pem"], "cannot read the certificate x.pem"),
    ],
)
def test_a_start_without_what_it_needs_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    refused = run("serve", "--data", tmp_path, *arguments, BENDYBUS_KEY=OWN_KEY)
    assert (refused.returncode, refused.stdout) == (1, "")
    [line] = refused.stderr.splitlines()
    assert words in line


def test_a_certificate_that_ended_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    files = AuthorityFolder(tmp_path / "tls")
    make_certificate(files, ["localhost"], days=1, now=datetime.now(UTC) - timedelta(days=3))
    refused = run("serve", "--data", tmp_path / "data", *options(files))
    assert refused.returncode == 1
    assert "ended on" in refused.stderr
    assert list((tmp_path / "data").iterdir()) == []


def test_the_commands_come_by_https_when_they_trust_the_authority(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    with serving(tmp_path, *options(files)) as broker:
        url = f"https://localhost:{broker.ready['https_port']}"
        stranger = run("store", "list", "--management-url", url)
        trusting = run("store", "list", "--management-url", url, SSL_CERT_FILE=str(files.authority))
    assert stranger.returncode == 1
    assert "--authority" in stranger.stderr
    assert trusting.stdout.count("online") == 2


def test_messages_are_sent_and_received_by_the_commands_over_tls(
    files: AuthorityFolder, tmp_path: Path
) -> None:
    with serving(tmp_path, "--config", EXAMPLE, *options(files)) as broker:
        text = (
            f"Endpoint=sb://localhost:{broker.ready['amqps_port']};"
            "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
        )
        trusted = {"SSL_CERT_FILE": str(files.authority), "BENDYBUS_CONNECTION_STRING": text}
        assert run("send", "orders", "over TLS", **trusted).returncode == 0
        named = ("--authority", files.authority)
        received = run("receive", "orders", *named, BENDYBUS_CONNECTION_STRING=text)
        stranger = run("send", "orders", "never", BENDYBUS_CONNECTION_STRING=text)
    assert "over TLS" in received.stdout
    assert stranger.returncode == 1
    [line] = stranger.stderr.splitlines()
    assert "cannot be trusted (unable to get local issuer certificate)" in line
    assert "--authority" in line
