"""docs/columns.md names every column, every type of a property and every type of a body."""

import re
from pathlib import Path

import pytest

from bendybus.columns.property_texts import _FORMS
from bendybus.columns.schema import BODY_TYPES, COLUMNS, DESCRIBED_TYPES, STATES, WRITABLE

PAGE = (Path(__file__).parents[3] / "docs" / "columns.md").read_text(encoding="utf-8")
TYPES = {name for name, _ in _FORMS.values()} | {*DESCRIBED_TYPES, "amqp"}


@pytest.mark.parametrize("name", sorted({*COLUMNS, *TYPES, *BODY_TYPES, *STATES}))
def test_the_page_names_what_there_is(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_page_marks_what_can_be_written() -> None:
    assert set(re.findall(r"`(\w+)` ✎", PAGE)) == set(WRITABLE)
