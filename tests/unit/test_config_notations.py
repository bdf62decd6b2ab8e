"""The two notations of configuration files, down to the characters."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.config_file import load_config
from bendybus.config_file.document import (
    DEPTH_MAX,
    FILE_BYTES_MAX,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
)
from bendybus.config_file.json_text import parse_json
from bendybus.config_file.yaml_text import parse_yaml
from bendybus.model.errors import ConfigInvalid

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def plain(node: Node) -> object:
    match node:
        case ScalarNode():
            return node.value
        case ListNode():
            return [plain(item) for item in node.items]
        case MapNode():
            return {entry.key: plain(entry.value) for entry in node.entries}


@given(VALUES, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_any_json_is_read_as_the_standard_library_reads_it(
    value: object, indent: int | str | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert plain(parse_json(text, "f")) == value


@given(st.text(alphabet='{}[]",:/*0a\\ \n\t-', max_size=30))
def test_any_text_is_read_or_refused_with_a_place_inside_it(text: str) -> None:
    try:
        parse_json(text, "f")
    except ConfigInvalid as refused:
        file, line, column, _ = str(refused).split(":", 3)
        assert file == "f"
        assert 1 <= int(line) <= text.count("\n") + 1
        assert 1 <= int(column) <= len(text) + 1


@given(st.text(max_size=60))
def test_any_yaml_is_read_or_refused(text: str) -> None:
    with suppress(ConfigInvalid):
        parse_yaml(text, "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('// first\n{"a": 1} // last', {"a": 1}),
        ('{/* a\n b */"a"/**/:/***/1}', {"a": 1}),
        ('{"a": "// not one", "b": "/* nor */"}', {"a": "// not one", "b": "/* nor */"}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ("[]", []),
    ],
)
def test_comments_and_last_commas_are_allowed(text: str, value: object) -> None:
    assert plain(parse_json(text, "f")) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1:1: a value is missing"),
        ("{", "f:1:2: a value is missing"),
        ('{"a"', "f:1:5: a ':' must follow the key 'a'"),
        ('{"a": 1 "b": 2}', "f:1:9: expected ',' or '}'"),
        ("[1 2]", "f:1:4: expected ',' or ']'"),
        ("[,]", "f:1:2: a value is missing"),
        ("{1: 2}", "f:1:2: a key must be a text"),
        ('{"a": NaN}', "f:1:7: NaN is not a JSON value"),
        ('{"a": nope}', "f:1:7: not JSON"),
        ('{"a": "x\n"}', "f:1:9: not JSON: Invalid control character"),
        ("{} {}", "f:1:4: nothing may follow"),
        ("{\n /* no end", "f:2:2: the comment that begins here has no end"),
        ("[" * (DEPTH_MAX + 2), "nested more than"),
    ],
)
def test_broken_json_is_refused_where_it_breaks(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_json(text, "f")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "f:1:5: not YAML"),
        ("a: 1\n b: 2", "f:2:3: not YAML"),
        ("a: 1\n---\nb: 2", "f:2:1: not YAML"),
        ("? [a]\n: 1", "f:1:3: a key must be a text"),
        ("a: !!python/object:os.system x", "f:1:4: not YAML: could not determine a constructor"),
        ("a: !!int x", "f:1:4: not a value"),
        ("a: \x00", "f: not YAML"),
        ("[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), "nested more than"),
        ("a: &a [*a]", "nested more than"),
    ],
)
def test_broken_yaml_is_refused_where_it_breaks(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_yaml(text, "f")
    assert message in str(refused.value)


def test_aliases_do_not_multiply_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigInvalid, match="more than 500000 values"):
        parse_yaml("\n".join(lines), "f")


def test_dates_in_yaml_are_the_text_that_was_written() -> None:
    assert plain(parse_yaml("a: 2026-01-01", "f")) == {"a": "2026-01-01"}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b"\xef\xbb\xbf" + b'{"Broker": {"Stores": 3}}')
    assert load_config(file).choices.stores == 3


def test_an_empty_file_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("")
    with pytest.raises(
        ConfigInvalid, match=r"c\.yaml:1:1: must be a mapping of keys to values, not nothing"
    ):
        load_config(file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.toml", b"", r"must end in \.json, \.yaml or \.yml"),
        ("c.json", b"\xff", "is not UTF-8 at byte 0"),
        ("c.json", b" " * (FILE_BYTES_MAX + 1), "is larger than"),
        ("c.json", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigInvalid, match=message):
        load_config(file)
