"""Whatever is asked of the management API is answered in the service's words, never by a defect."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bendybus.atom.descriptions import Facts, write_description
from bendybus.atom.entries import write_request_entry
from bendybus.atom.properties import REQUESTS, Kind
from bendybus.atom.rules import write_rule
from bendybus.atom.xml_reading import parse
from bendybus.atom.xml_writing import text_element
from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.rule import CorrelationFilter, Rule, SqlAction
from tests.http.managing import Administrator, managing

# Valid descriptions, as a beginning.
GOOD = {
    Kind.QUEUE: write_description(Queue("q"), Facts(), host="h"),
    Kind.TOPIC: write_description(Topic("t"), Facts(), host="h"),
    Kind.SUBSCRIPTION: write_description(Subscription("s"), Facts(), host="h"),
    Kind.RULE: write_rule(
        Rule("r", CorrelationFilter(properties={"a": 1, "b": "x"}), SqlAction("SET a = 1"))
    ),
    Kind.NAMESPACE: "",
}
WORDS = st.sampled_from(
    (
        *("q", "t", "subscriptions", "Subscriptions", "s", "rules", "RULES", "$Default", "r"),
        *("$Resources", "queues", "topics", "$namespaceinfo", "messages"),
        *("a b", "\u00e9", "\x00", "..", ""),
    )
)
PATHS = st.lists(WORDS, max_size=6).map(lambda words: "/".join(quote(word) for word in words))
QUERIES = st.dictionaries(
    st.sampled_from(["api-version", "$skip", "$top", "enrich", "x"]),
    st.sampled_from(["2021-05", "2013-08", "2024-05", "0", "1", "100", "-1", "x", "", "9" * 30]),
    max_size=3,
)
ELEMENTS = st.sampled_from(sorted({name for names in REQUESTS.values() for name in names}))
TEXTS = st.sampled_from(
    ["", "true", "false", "-1", "0", "1024", "PT1M", "PT0S", "P1Y", "q", "t", "Active", "x" * 2000]
) | st.text(max_size=20)


@st.composite
def contents(draw: st.DrawFn, kind: Kind) -> str:
    """A description with some elements beyond or in place of the good ones."""
    good = GOOD[kind] if draw(st.booleans()) else ""
    elements = draw(st.lists(st.tuples(ELEMENTS, TEXTS), max_size=4))
    return good + "".join(text_element(name, text) for name, text in elements)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A body: mostly an entry, sometimes with bytes cut out or put in, sometimes anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    kind = draw(st.sampled_from(Kind))
    body = write_request_entry(kind, draw(contents(kind))).encode()
    if draw(st.booleans()):
        return body
    start = draw(st.integers(0, len(body)))
    end = start + draw(st.integers(0, 20))
    return body[:start] + draw(st.binary(max_size=5)) + body[end:]


@pytest.fixture
async def administrator(tmp_path: Path) -> AsyncIterator[Administrator]:
    async with managing(tmp_path, stores=2) as administrator:
        yield administrator


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "PUT", "PUT", "PUT", "DELETE"]),
    path=PATHS,
    query=QUERIES,
    body=bodies(),
    match=st.sampled_from([None, "*", '"1"', "x"]),
)
async def test_any_request_is_answered_and_never_by_a_defect(
    administrator: Administrator,
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes,
    match: str | None,
) -> None:
    headers = {} if match is None else {"If-Match": match}
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    answer = await administrator.call_raw(method, f"/{path}", body, headers, asked)
    assert answer.status_code in {200, 201, 400, 403, 404, 405, 409, 412}, answer.text
    if answer.is_success:
        assert answer.content == b"" or parse(answer.content).name in {"entry", "feed"}
    else:
        assert _refusal(answer) == str(answer.status_code)


def _refusal(answer: httpx.Response) -> str | None:
    return parse(answer.content).text_of("Code")
