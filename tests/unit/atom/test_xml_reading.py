"""XML from strangers is read within bounds, or refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.atom.xml_reading import Bounds, parse
from bendybus.atom.xml_writing import text_element
from bendybus.model.errors import ArgumentInvalid

BOUNDS = Bounds(bytes_max=4096, elements_max=100, depth_max=8)


def test_names_are_read_without_their_namespaces() -> None:
    root = parse(b'<a:x xmlns:a="urn:a" xmlns:i="urn:i" i:type="b:Kind"><y>1</y><a:y>2</a:y></a:x>')
    assert root.name == "x"
    assert root.type_name == "Kind"
    assert [child.text for child in root.find_all("y")] == ["1", "2"]
    assert root.text_of("z") is None


def test_text_is_that_of_the_element_alone() -> None:
    root = parse(b"<a>one<b>two</b> three<![CDATA[<four>]]></a>")
    assert root.text == "one three<four>"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7", "ebcdic", "idna"])
def test_documents_are_utf_8_whatever_they_declare(encoding: str) -> None:
    declaration = f"<?xml version='1.0' encoding='{encoding}'?>"
    assert parse(f"{declaration}<a>é+AGE-</a>".encode()).text == "é+AGE-"


BILLION_LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [
 <!ENTITY lol "lol">
 <!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
 <!ENTITY lol3 "&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;">
]>
<lolz>&lol3;</lolz>"""


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(BILLION_LAUGHS, id="entities of entities"),
        pytest.param(b"<!DOCTYPE a><a/>", id="a document type"),
        pytest.param(b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', id="a file"),
        pytest.param(b"<a>&b;</a>", id="an entity from nowhere"),
        pytest.param(b"<a" + b" x='1'" * 2 + b"/>", id="an attribute twice"),
        pytest.param(b"<a>" * 9 + b"</a>" * 9, id="too deep"),
        pytest.param(b"<a>" + b"<b/>" * 100 + b"</a>", id="too many elements"),
        pytest.param(b"<a>" + b"x" * 4096 + b"</a>", id="too long"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"<a>", id="no end"),
        pytest.param(b"<a/><b/>", id="two roots"),
        pytest.param(b"<a>\xff</a>", id="no UTF-8"),
        pytest.param(b"<a>\x00</a>", id="a null character"),
    ],
)
def test_what_is_dangerous_or_broken_is_refused(document: bytes) -> None:
    with pytest.raises(ArgumentInvalid):
        parse(document, BOUNDS)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(document: bytes) -> None:
    with contextlib.suppress(ArgumentInvalid):
        parse(document, BOUNDS)


# What XML can hold: everything but most control characters and half characters.
XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\r\n\t<>&\"'"),
    max_size=50,
)


@given(XML_TEXT)
def test_texts_come_back_as_they_were(text: str) -> None:
    assert parse(text_element("a", text).encode()).text == text


@given(st.text(max_size=50))
def test_any_text_can_be_written(text: str) -> None:
    assert len(parse(text_element("a", text).encode()).text) == len(text)
