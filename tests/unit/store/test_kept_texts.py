"""Texts that PostgreSQL does not take are kept in another form, and come back as they were."""

import json

from hypothesis import given
from hypothesis import strategies as st

from bendybus.store.postgres.texts import from_store, from_store_json, to_store, to_store_json

# What is special in a text, in JSON, or in what is kept, and something that is not.
PIECES = ("\0", "\uffff", "0", "1", "\\", "u0000", "uffff", "uFFFF", '"', "a\n")
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"])
)


@given(TEXTS)
def test_every_text_is_kept_without_what_cannot_be_kept(text: str) -> None:
    assert "\0" not in to_store(text)
    assert from_store(to_store(text)) == text


@given(TEXTS, TEXTS)
def test_texts_that_differ_are_kept_apart(one: str, other: str) -> None:
    assert (to_store(one) == to_store(other)) == (one == other)


@given(st.lists(TEXTS), st.booleans())
def test_texts_in_json_are_kept_as_they_are_alone(texts: list[str], is_ascii: bool) -> None:
    given = json.dumps([texts, 1], ensure_ascii=is_ascii)
    assert json.loads(to_store_json(given)) == [[*map(to_store, texts)], 1]


@given(st.lists(TEXTS))
def test_json_comes_back_as_it_was(texts: list[str]) -> None:
    # The server escapes what it must, and nothing else.
    there = json.dumps([*map(to_store, texts)], ensure_ascii=False)
    assert json.loads(from_store_json(there)) == texts


@given(st.text(st.characters(codec="ascii", min_codepoint=1)))
def test_what_need_not_be_changed_is_not(text: str) -> None:
    plain = json.dumps(text)
    assert (to_store(text), to_store_json(plain)) == (text, plain)
    assert (from_store(text), from_store_json(plain)) == (text, plain)
