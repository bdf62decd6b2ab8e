"""The commands on the pages about the command line run, one after the other, as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SECONDS_MAX, environment, serving

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "namespace.yaml"


MESSAGES = (
    "1 sent",
    "100 sent",
    "1 would be redriven",
    "1 redriven",
    "100 deleted",
    "0 would be deleted",
)
MANAGEMENT = ('  "keyName": "desk",',)


@pytest.mark.parametrize(
    ("page", "lines"), [("cli.md", MESSAGES), ("cli-management.md", MANAGEMENT)]
)
def test_the_commands_of_the_page_run(tmp_path: Path, page: str, lines: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / page).read_text()
    [block] = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    command = tmp_path / "bendybus"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bendybus "$@"\n')
    command.chmod(0o755)
    with serving(tmp_path, "--config", EXAMPLE) as broker:
        port = broker.ready["amqp_port"]
        connection = (
            f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )
        done = subprocess.run(
            ["sh", "-e", "-c", f'PATH="{tmp_path}:$PATH"\n{block}'],
            cwd=tmp_path,
            env=environment(
                BENDYBUS_CONNECTION_STRING=connection,
                BENDYBUS_MANAGEMENT_URL=f"http://127.0.0.1:{broker.ready['http_port']}",
            ),
            capture_output=True,
            text=True,
            timeout=2 * SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for line in lines:
        assert f"{line}\n" in done.stdout
