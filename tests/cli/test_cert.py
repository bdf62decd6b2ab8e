"""`bendybus cert`: what it makes, what it says, and what it does not touch."""

import ssl
import stat
from pathlib import Path

import pytest

from tests.cli.command import run, serving

FREE_PORTS = ("--amqps-port", "0", "--https-port", "0")


def test_it_makes_a_certificate_and_says_how_to_serve_and_to_trust_it(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    made = run("cert", "--folder", folder, "--host", "bus.example.org")
    assert (made.returncode, made.stderr) == (0, "")
    for words in (
        "for localhost, ",
        "bus.example.org",
        "127.0.0.1",
        f"--tls-cert {folder}/server.pem --tls-key {folder}/server-key.pem",
        f'connection_verify="{folder}/ca.pem"',
        f"NODE_EXTRA_CA_CERTS={folder}/ca.pem",
        "update-ca-certificates",
        "keytool -importcert",
    ):
        assert words in made.stdout
    for key in ("ca-key.pem", "server-key.pem"):
        assert stat.S_IMODE((folder / key).stat().st_mode) == 0o600
    ssl.create_default_context(cafile=str(folder / "ca.pem"))


def test_nothing_is_replaced_without_being_told_to(tmp_path: Path) -> None:
    assert run("cert", "--folder", tmp_path).returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused = run("cert", "--folder", tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "say --renew to replace it" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_renewal_keeps_the_authority_and_the_hosts(tmp_path: Path) -> None:
    run("cert", "--folder", tmp_path, "--host", "a.example.org")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    renewed = run("cert", "--folder", tmp_path, "--renew", "--host", "b.example.org")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert renewed.returncode == 0
    assert "a.example.org, b.example.org" in renewed.stdout
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.pem", "server-key.pem"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--renew"], "to renew; leave --renew out"),
        (["--host", "two words"], "neither a host name nor an address"),
        (["--folder", "/proc/nowhere"], "/proc/nowhere: "),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    refused = run("cert", "--folder", tmp_path / "tls", *arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    [line] = refused.stderr.splitlines()
    assert words in line
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize("name", ["ca-key.pem", "server-key.pem"])
def test_a_key_whose_certificate_is_gone_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    refused = run("cert", "--folder", tmp_path)
    assert refused.returncode == 1
    assert f"{name} is there without" in refused.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "precious"}


def test_a_renewal_mends_what_another_left_half_done(tmp_path: Path) -> None:
    run("cert", "--folder", tmp_path)
    old_key = (tmp_path / "server-key.pem").read_bytes()
    run("cert", "--folder", tmp_path, "--renew")
    (tmp_path / "server-key.pem").write_bytes(old_key)
    tls = ("--tls-cert", tmp_path / "server.pem", "--tls-key", tmp_path / "server-key.pem")
    refused = run("serve", "--data", tmp_path / "data", *tls)
    assert "bendybus cert --renew" in refused.stderr
    assert run("cert", "--folder", tmp_path, "--renew").returncode == 0
    with serving(tmp_path, *tls, *FREE_PORTS) as broker:
        assert "AMQPS  127.0.0.1:" in broker.announcement


def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "tls.md").read_text().replace("\\\n", " ")
    commands = [line.split() for line in page.splitlines() if line.startswith("    bendybus ")]
    (tmp_path / "key").write_text("a-key-of-my-own-that-is-long")
    assert [command[1] for command in commands] == ["cert", "serve", "cert"]
    for command in commands:
        if command[1] == "cert":
            done = run(*command[1:])
            assert (done.returncode, done.stderr) == (0, "")
        else:
            with serving(tmp_path, *command[2:], *FREE_PORTS) as broker:
                assert "AMQPS  0.0.0.0:" in broker.announcement
