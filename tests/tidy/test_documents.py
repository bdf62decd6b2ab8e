"""Documents keep up with the code: settings, decisions, links."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.settings import Choices
from tests.tidy.tree import ROOT, project_files, read

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
DECISION_NAME = re.compile(r"(\d{4})-[a-z0-9-]+\.md")

MARKDOWN = [path for path in project_files() if path.suffix == ".md"]
CONFIGURATION = ROOT / "docs" / "configuration.md"


@pytest.mark.parametrize("path", MARKDOWN, ids=str)
def test_every_link_in_a_document_leads_somewhere(path: Path) -> None:
    assert list(broken_links(path, read(path))) == []


def test_a_link_to_nowhere_is_found() -> None:
    text = (
        "[a](missing.md) [b](README.md#no-such-heading) [c](#own) [d](https://x.example)\n# Own\n"
    )
    assert list(broken_links(Path("x.md"), text)) == ["missing.md", "README.md#no-such-heading"]


def test_decisions_are_numbered_without_gaps_and_state_their_number() -> None:
    names = [path.name for path in project_files() if path.parent == Path("decisions")]
    matches = [DECISION_NAME.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in matches if match]
    assert len(numbers) == len(names), "name a decision 0001-what-was-chosen.md"
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    for name in names:
        assert read(Path("decisions") / name).startswith(f"# {name[:4]} ")


@pytest.mark.skipif(not CONFIGURATION.exists(), reason="there is no page to hold against the code")
def test_every_setting_is_on_the_configuration_page() -> None:
    page = CONFIGURATION.read_text(encoding="utf-8")
    # The URLs of stores are given in place of their number.
    names = {field.name for field in dataclasses.fields(Choices)} - {"places"}
    variables = sorted(f"BENDYBUS_{name.upper()}" for name in names)
    assert [name for name in variables if f"`{name}`" not in page] == []


def broken_links(path: Path, text: str) -> Iterator[str]:
    """Relative links whose file or heading does not exist; the web is not asked."""
    for target in LINK.findall(CODE_BLOCK.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        destination = (ROOT / path).parent / file
        if file and not destination.exists():
            yield target
            continue
        page = destination.read_text(encoding="utf-8") if file and anchor else text
        if anchor and anchor not in anchors(page):
            yield target


def anchors(text: str) -> set[str]:
    """The fragment of each heading, as the common renderers make it."""
    headings = HEADING.findall(CODE_BLOCK.sub("", text))
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }
