"""What others wrote is shown and not obeyed; programs get it as it is."""

import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from bendybus.cli.failure import CommandFailed, ending_in_one_line
from bendybus.cli.harmless import harmless
from bendybus.cli.options import Output
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_message import show
from bendybus.client.message import Message, ReceivedMessage
from tests.cli.command import SECONDS_MAX, environment

WINDOW_TITLE = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, and café, → 日本 🙂", "plain, and café, → 日本 🙂"),
        (WINDOW_TITLE, r"\x1b]0;owned\x07"),
        ("a\rb\x9b2J", r"a\rb\x9b2J"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
    ],
)
def test_characters_that_are_obeyed_are_shown_by_their_numbers(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_message_cannot_rule_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    sent = Message(f"{WINDOW_TITLE}hello", session_id="s\x1b[2J")
    show(ReceivedMessage(sent.encode()), Output.TABLE)
    show(ReceivedMessage(sent.encode()), Output.JSON)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert r"\x1b]0;owned\x07hello" in printed


def test_a_cell_is_no_markup() -> None:
    table = PlainTable("filter")
    table.add("[odd name] = 'x' AND [red] = 1")
    table.add(WINDOW_TITLE)
    console = Console(width=80)
    with console.capture() as printed:
        console.print(table)
    assert "[odd name] = 'x' AND [red] = 1" in printed.get()
    assert "\x1b]" not in printed.get()


def test_a_refusal_is_one_line_whatever_a_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), ending_in_one_line():
        raise CommandFailed(f"no such\nthing {WINDOW_TITLE}")
    assert capsys.readouterr().err == r"bendybus: no such\nthing \x1b]0;owned\x07" + "\n"


def test_programs_get_a_text_as_it_is_and_people_do_not() -> None:
    program = f"from bendybus.cli.harmless import echo; echo('one\\n' + {WINDOW_TITLE!r})"
    command = [sys.executable, "-c", program]
    piped = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=SECONDS_MAX, check=True
    )
    assert piped.stdout == f"one\n{WINDOW_TITLE}\n"
    terminal, others_end = pty.openpty()
    subprocess.run(command, env=environment(), stdout=others_end, timeout=SECONDS_MAX, check=True)
    seen = os.read(terminal, 1000)
    os.close(others_end)
    os.close(terminal)
    assert seen.split() == [b"one", rb"\x1b]0;owned\x07"]
