"""Every example on the page about filters is true."""

import json
import re
from itertools import takewhile
from pathlib import Path

import pytest

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.filter_grammar import parse_filter
from bendybus.model.message_view import SYSTEM_PROPERTIES, WRITABLE_SYSTEM_PROPERTIES
from bendybus.model.rule import SqlAction
from bendybus.model.rule_actions import compile_action
from bendybus.model.sql_values import FilterFailed
from tests.unit.model.rule_messages import Seen, fixed_id, matches, truth_of

pytestmark = pytest.mark.spec("R4")

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")
MESSAGE = json.loads(PAGE.split("```json")[1].split("```")[0])
VIEW = Seen(MESSAGE["user"], MESSAGE["sys"])
ROW = re.compile(r"\| `(.+)` \| (.+) \|$")
TRUTHS = {"true": True, "false": False, "unknown": None}


def rows(heading: str) -> list[tuple[str, str]]:
    """The rows of each table whose heading is this."""
    tables = PAGE.split(f"\n{heading}\n")[1:]
    lines = [line for table in tables for line in takewhile(ROW.match, table.splitlines()[1:])]
    return [ROW.findall(line)[0] for line in lines]


@pytest.mark.parametrize(("text", "answer"), rows("| Condition | Here |"))
def test_a_condition_of_the_page_is_what_the_page_says(text: str, answer: str) -> None:
    assert truth_of(text, VIEW) is TRUTHS[answer]


@pytest.mark.parametrize(("text", "answer"), rows("| Action | Changes |"))
def test_an_action_of_the_page_changes_what_the_page_says(text: str, answer: str) -> None:
    changes = compile_action(SqlAction(text), new_id=fixed_id).apply(VIEW)
    expected = MESSAGE["user"] | json.loads(answer.strip("`"))
    assert changes.merged_user(MESSAGE["user"]) == expected


@pytest.mark.parametrize(("text", "answer"), rows("| Filter | Answer |"))
def test_a_wrong_filter_of_the_page_is_refused_as_the_page_says(text: str, answer: str) -> None:
    with pytest.raises(ArgumentInvalid, match=f"^{re.escape(answer)}$"):
        parse_filter(text)


@pytest.mark.parametrize(("text", "answer"), rows("| Filter | Reason |"))
def test_a_failing_filter_of_the_page_fails_as_the_page_says(text: str, answer: str) -> None:
    with pytest.raises(FilterFailed, match=f"^{re.escape(answer)}$"):
        matches(text, VIEW)


def test_the_page_has_examples_of_everything() -> None:
    counts = {
        heading: len(rows(f"| {heading} |"))
        for heading in (
            "Condition | Here",
            "Action | Changes",
            "Filter | Answer",
            "Filter | Reason",
        )
    }
    assert min(counts.values()) >= 3
    assert counts["Condition | Here"] >= 37


def test_the_page_names_every_system_property_and_those_that_can_be_set() -> None:
    listed = PAGE.split("The system's properties are")[1].split("Times are")[0]
    assert set(re.findall(r"\w+", listed)) - {"also", "Subject", "and"} == SYSTEM_PROPERTIES
    settable = PAGE.split("Of the system's properties")[1].split("can be set")[0]
    assert set(re.findall(r"\w+", settable)) - {"and"} == WRITABLE_SYSTEM_PROPERTIES
