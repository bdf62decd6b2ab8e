"""Conditions on the JSON in a body."""

import json

import pytest

from bendybus.cli.failure import CommandFailed
from bendybus.cli.json_path import parse_json_path

ORDER = {
    "id": 7,
    "total": 99.5,
    "paid": True,
    "note": None,
    "odd name": "x",
    "items": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}],
}


@pytest.mark.parametrize(
    "text",
    [
        "$",
        "$.id",
        "$.note",
        "$.id = 7",
        "$.id == 7.0",
        "$.total > 99",
        "$.total <= 99.5",
        "$.paid = true",
        "$.note = null",
        "$['odd name'] = x",
        "$['odd name'] = 'x'",
        '$.items[0].sku = "a"',
        "$.items[-1].count >= 2",
        "$.items[*].sku = b",
        "$.items.*.sku = b",
        "$.items[*].sku != a",
        '$.id != "7"',
        "$.*=7",
    ],
)
@pytest.mark.parametrize("form", [json.dumps(ORDER).encode(), json.dumps(ORDER), ORDER])
def test_a_condition_holds_of_a_body(text: str, form: object) -> None:
    assert parse_json_path(text).matches(form)


@pytest.mark.parametrize(
    "text",
    [
        "$.name",
        "$.id.name",
        "$.id = 8",
        "$.id = '7'",
        "$.paid = 1",
        "$.note > 1",
        "$.items[2]",
        "$.items[-3]",
        "$.items.0",
        "$.id[0]",
        "$.items[*].count > 2",
        "$.items[0] < 1",
        "$.id != 7",
    ],
)
def test_a_condition_does_not_hold_of_a_body(text: str) -> None:
    assert not parse_json_path(text).matches(ORDER)


@pytest.mark.parametrize("body", [b"no json", b"\xff\xfe", 7, None, ["x"]])
def test_of_what_is_no_object_no_member_is_found(body: object) -> None:
    assert not parse_json_path("$.id").matches(body)


@pytest.mark.parametrize("text", ["id", "", "$.a b", "$.a = ", "$.[", "$.a[x]", "$a"])
def test_what_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(CommandFailed, match="--json-path"):
        parse_json_path(text)


def test_a_body_that_is_nested_without_end_is_no_json() -> None:
    assert not parse_json_path("$.a").matches(b"[" * 100_000)
