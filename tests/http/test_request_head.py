"""The grammar of requests: what is read, and all that is refused."""

import pytest
from httptools import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from bendybus.http import request_head
from bendybus.http.chunks import ChunkedBody
from bendybus.http.request_head import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    HeadReader,
    RequestHead,
    RequestRefused,
)


def head(*lines: str) -> RequestHead:
    raw = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    buffer = bytearray(raw + b"rest")
    read = HeadReader().take(buffer)
    assert read is not None
    assert (read.raw, bytes(buffer)) == (raw, b"rest")
    return read


def test_a_request_is_read_as_it_was_written() -> None:
    read = head(
        "POST /Orders%2Fnew/messages?timeout=5 HTTP/1.1",
        "Host: localhost:5300",
        "CustomerName:  Zo\xeb\t",
        "Content-Length: 12",
        "Accept: a",
        "ACCEPT: b",
    )
    assert (read.method, read.path, read.query) == ("POST", "/Orders%2Fnew/messages", "timeout=5")
    assert read.headers[1] == ("CustomerName", "Zo\xeb")
    assert read.fields["accept"] == "a, b"
    assert (read.body_length, read.is_chunked, read.is_kept_alive) == (12, False, True)
    assert read.host == "localhost:5300"


@pytest.mark.parametrize(
    ("lines", "is_kept_alive"),
    [
        (["GET / HTTP/1.1", "Host: x"], True),
        (["GET / HTTP/1.1", "Host: x", "Connection: Upgrade, Close"], False),
        (["GET / HTTP/1.0"], False),
        (["GET / HTTP/1.0", "Connection: keep-alive"], False),
        (["GET http://x/a HTTP/1.1", "Host: X"], True),
        (["GET / HTTP/1.1", "Host: [::1]:5300"], True),
        (["GET / HTTP/1.1", "Host:"], True),
    ],
)
def test_these_are_requests(lines: list[str], is_kept_alive: bool) -> None:
    assert head(*lines).is_kept_alive is is_kept_alive


GET = "GET / HTTP/1.1"
HOST = "Host: x"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        # the first line
        ([""], 400),
        (["GET /"], 505),
        (["GET  / HTTP/1.1", HOST], 400),
        (["get / HTTP/1.1", HOST], 400),
        (["GET / HTTP/1.1 ", HOST], 400),
        (["GET /\x80 HTTP/1.1", HOST], 400),
        (["GET / HTTP/2.0", HOST], 505),
        (["PRI * HTTP/2.0"], 400),
        (["GET / HTTP/1.2", HOST], 400),
        (["TRACE / HTTP/1.1", HOST], 501),
        (["CONNECT x:443 HTTP/1.1", HOST], 501),
        (["OPTIONS * HTTP/1.1", HOST], 400),
        (["GET /" + "x" * 9000 + " HTTP/1.1", HOST], 414),
        # one host, the same everywhere
        ([GET], 400),
        ([GET, HOST, HOST], 400),
        ([GET, "Host: x, y"], 400),
        ([GET, "Host: x/y"], 400),
        ([GET, "Host: x@y"], 400),
        (["GET http://y/ HTTP/1.1", HOST], 400),
        (["GET ftp://x/ HTTP/1.1", HOST], 400),
        (["GET http://u@x/ HTTP/1.1", HOST], 400),
        # headers
        ([GET, HOST, " folded: yes"], 400),
        ([GET, HOST, "Long: a", "\tfolded"], 400),
        ([GET, HOST, "Name : value"], 400),
        ([GET, HOST, ": value"], 400),
        ([GET, HOST, "no colon"], 400),
        ([GET, HOST, "N\xe4me: value"], 400),
        ([GET, HOST, "Name: va\x00lue"], 400),
        ([GET, HOST, "Name: va\x0blue"], 400),
        ([GET, HOST, "Name: va\rlue"], 400),
        ([GET, HOST, "Name: va\nX: lue"], 400),
        ([GET, HOST, "Authorization: a", "authorization: b"], 400),
        ([GET, HOST, "BrokerProperties: {}", "brokerproperties: {}"], 400),
        ([GET, HOST, "Expect: a miracle"], 417),
        ([GET, HOST, *["A: b"] * HEADERS_MAX], 431),
        # the end of the body
        ([GET, HOST, "Content-Length: 1", "Transfer-Encoding: chunked"], 400),
        ([GET, HOST, "Transfer-Encoding: chunked", "Content-Length: 1"], 400),
        ([GET, HOST, "Content-Length: 1", "Content-Length: 1"], 400),
        ([GET, HOST, "Content-Length: 1, 1"], 400),
        ([GET, HOST, "Content-Length: +1"], 400),
        ([GET, HOST, "Content-Length: 0x1"], 400),
        ([GET, HOST, "Content-Length: 1_0"], 400),
        ([GET, HOST, "Content-Length: \xb2"], 400),
        ([GET, HOST, "Content-Length:"], 400),
        ([GET, HOST, "Content-Length: " + "1" * 16], 400),
        ([GET, HOST, "Transfer-Encoding: chunked, chunked"], 400),
        ([GET, HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400),
        ([GET, HOST, "Transfer-Encoding: identity"], 400),
        ([GET, HOST, "Transfer-Encoding: gzip, chunked"], 501),
        ([GET, HOST, "Transfer-Encoding: xchunked"], 400),
        (["GET / HTTP/1.0", HOST, "Transfer-Encoding: chunked"], 400),
    ],
)
def test_these_are_refused(lines: list[str], status: int) -> None:
    with pytest.raises(RequestRefused) as refused:
        head(*lines)
    assert refused.value.status == status


@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../a",
        "/a/..",
        "/a/./b",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/a%2F..%2Fb",
        "//a",
        "/a//b",
        "/a%2f/b",
        "/a/%2Fb",
        "/a\\b",
        "/a%5Cb",
        "/a%00",
        "/a%0d%0ab",
        "/a%1f",
        "/a%7F",
        "/a%",
        "/a%zz",
        "/a%c",
        "/a#b",
    ],
)
def test_a_path_that_could_be_read_in_two_ways_is_refused(path: str) -> None:
    with pytest.raises(RequestRefused, match="two ways"):
        head(f"GET {path} HTTP/1.1", HOST)


@pytest.mark.parametrize(
    "path",
    ["/", "/a/", "/a.b/..c/d..", "/...", "/$Resources/queues", "/a%2Fb", "/a%20b", "/%24cbs"],
)
def test_an_unusual_path_is_a_path(path: str) -> None:
    assert head(f"GET {path} HTTP/1.1", HOST).path == path


@pytest.mark.parametrize(
    "begun", [b"\x16\x03\x01", b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\nHost", b"GET\r/", b"get"]
)
def test_what_can_become_no_request_is_not_waited_for(begun: bytes) -> None:
    with pytest.raises(RequestRefused, match="no request"):
        HeadReader().take(bytearray(begun))


@given(st.lists(st.integers(1, 60), max_size=20))
def test_a_head_is_the_same_however_it_is_cut(sizes: list[int]) -> None:
    raw = b"POST /a?b HTTP/1.1\r\nHost: x\r\nLong: " + b"y" * 200 + b"\r\nContent-Length: 4\r\n\r\n"
    reader, buffer, rest = HeadReader(), bytearray(), raw + b"body"
    head = None
    for size in [*sizes, len(rest)]:
        assert head is None
        buffer += rest[:size]
        rest = rest[size:]
        head = reader.take(buffer)
        if head is not None:
            break
        assert buffer == b""
    assert head is not None
    assert (head.path, head.query, head.fields["long"], head.raw) == ("/a", "b", "y" * 200, raw)
    assert buffer + rest == b"body"


def test_a_head_that_dribbles_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: as many bytes go to the parser as came, and few are looked at twice."""
    fed: list[int] = []

    class Counting(HttpRequestParser):
        def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # all that is fed
            fed.append(len(data))
            super().feed_data(data)

    monkeypatch.setattr(request_head, "HttpRequestParser", Counting)
    reader = HeadReader()
    begun = b"GET / HTTP/1.1\r\nX: ".ljust(3000, b"x")
    for at in range(len(begun)):
        assert reader.take(bytearray(begun[at : at + 1])) is None
    assert fed == [1] * len(begun)


def test_a_head_without_end_is_not_kept() -> None:
    begun = b"GET / HTTP/1.1\r\nX: "
    assert HeadReader().take(bytearray(begun.ljust(HEAD_BYTES_MAX - 1, b"x"))) is None
    for size in (HEAD_BYTES_MAX, HEAD_BYTES_MAX * 2):
        with pytest.raises(RequestRefused) as refused:
            HeadReader().take(bytearray(begun.ljust(size, b"x")))
        assert refused.value.status == 431


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused(data: bytes) -> None:
    buffer = bytearray(data + b"\r\n\r\n")
    try:
        head = HeadReader().take(buffer)
    except RequestRefused:
        return
    assert head is not None
    assert head.raw + buffer == data + b"\r\n\r\n"


def chunked(body: bytes, *sizes: int) -> bytes:
    written = b""
    for size in sizes:
        written += b"%x\r\n%b\r\n" % (len(body[:size]), body[:size]) if body else b""
        body = body[size:]
    if body:
        written += b"%X\r\n%b\r\n" % (len(body), body)
    return written + b"0\r\n\r\n"


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=8), st.integers(1, 50))
def test_chunks_give_the_body_however_they_arrive(body: bytes, sizes: list[int], step: int) -> None:
    taken = ChunkedBody(300)
    buffer = bytearray()
    raw = chunked(body, *sizes) + b"NEXT"
    results: list[bytes | None] = []
    for at in range(0, len(raw), step):
        buffer += raw[at : at + step]
        if not any(result is not None for result in results):
            results.append(taken.take(buffer))
        assert not taken.is_too_large
    assert [result for result in results if result is not None] == [body]
    assert buffer == b"NEXT"


@pytest.mark.parametrize(
    "data",
    [
        b"5;name=value\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n\n\n\n\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhelloX\n0\r\n\r\n",
        b"000000005\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        b"g\r\n",
        b"-1\r\n",
    ],
)
def test_chunks_in_any_other_form_are_refused(data: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        ChunkedBody(1000).take(bytearray(data))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "data", [b"3e9\r\n", b"ffffffff\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n"]
)
def test_chunks_are_counted_before_they_come(data: bytes) -> None:
    taken = ChunkedBody(1000)
    assert taken.take(bytearray(data)) is None
    assert taken.is_too_large


def test_chunks_of_just_the_size_allowed_are_taken() -> None:
    taken = ChunkedBody(1000)
    assert taken.take(bytearray(b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n")) == b"x" * 1000
