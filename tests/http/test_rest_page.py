"""The examples of docs/rest.md, run as they stand against the broker of `make run`."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bendybus.testing.broker_process import broker_process
from tests.tidy.tree import ROOT

BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOOLS = ("bash", "curl", "openssl", "base64")
MARK = "-- next --"


@pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)} on the path"
)
def test_every_example_prints_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "rest.md").read_text()
    blocks = BLOCK.findall(page)
    script = "set -eu\n"
    expected = []
    for kind, text in blocks:
        if kind == "sh":
            script += text
        else:
            script += f"echo '{MARK}'\n"
            expected.append(text)
    assert len(expected) >= 3
    with broker_process(ROOT / "examples" / "namespace.yaml") as broker:
        done = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": "/usr/bin:/bin", "URL": f"http://127.0.0.1:{broker.http_port}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.replace("\r", "").split(f"{MARK}\n")
    assert printed == [*expected, ""]
