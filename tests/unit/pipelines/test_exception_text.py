"""Texts of failures are folded so that those of one kind become one text."""

import re

import pytest

from bendybus.pipelines.exception_text import FOLDS

CASES = [
    ("Timeout after 3012 ms for order 'A-17'", "Timeout after <n> ms for order <text>"),
    ('can\'t open "a b" at 10.0.0.1:5672', "can't open <text> at <n>"),
    (
        "Order b4dd2ac8-3f3f-4b8c-9d0a-0a1b2c3d4e5f failed at 2026-11-16T08:30:00.000Z",
        "Order <id> failed at <time>",
    ),
    ("on 2026-11-16, 2026-11-16 08:30", "on <time>, <time>"),
    (
        "Null in Base64Decoder.utf8 line 42\n  at a()\n  at b()",
        "Null in Base64Decoder.utf8 line <n>",
    ),
    ("\n\n  KeyError: `x1`  ", "KeyError: <text>"),
    ("order-123 ORD00123 0xdeadBEEF deadbeefcafe01", "order-<n> <id> <id> <id>"),
    ("https://a.example/b?c=1 by user@x.example", "<url> by <address>"),
    ("50% of 1,234.5 took 12ms", "<n>% of <n> took <n>ms"),
    ("Int32 x1 utf8", "Int32 x1 utf8"),
    ("many    spaces\there", "many spaces here"),
    ("", ""),
]


@pytest.mark.spec("R9.2")
@pytest.mark.parametrize(("text", "folded"), CASES)
def test_what_differs_from_message_to_message_is_folded(text: str, folded: str) -> None:
    for pattern, replacement in FOLDS:
        text = re.sub(pattern, replacement, text)
    assert text.strip() == folded
