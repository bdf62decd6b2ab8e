"""Messages as columns are messages like any others."""

import pytest

from bendybus.model.message import Message
from bendybus.model.plain_messages import PlainMessages

CONTENTS = [b"a", b"b", b"c"]
DIGESTS = [b"1", b"2", b"3"]


@pytest.fixture(params=[None, DIGESTS], ids=["no ids", "ids"])
def digests(request: pytest.FixtureRequest) -> list[bytes] | None:
    return None if request.param is None else list(request.param)


@pytest.fixture
def plain(digests: list[bytes] | None) -> PlainMessages:
    return PlainMessages(list(CONTENTS), digests)


@pytest.fixture
def each(digests: list[bytes] | None) -> list[Message]:
    return [
        Message(content, digest=None if digests is None else digests[at])
        for at, content in enumerate(CONTENTS)
    ]


def test_each_is_made_when_it_is_asked_for(plain: PlainMessages, each: list[Message]) -> None:
    assert len(plain) == 3
    assert list(plain) == each
    assert [plain[at] for at in range(-3, 3)] == each * 2
    assert list(plain[1:]) == each[1:]
    assert list(plain[::-1]) == each[::-1]
    with pytest.raises(IndexError):
        plain[3]


def test_changing_one_changes_nothing_here(plain: PlainMessages) -> None:
    plain[0].content = b"another"
    assert plain[0].content == b"a"


def test_some_can_be_chosen(plain: PlainMessages, each: list[Message]) -> None:
    assert list(plain.chosen([0, 2])) == [each[0], each[2]]
    assert list(plain.chosen([])) == []
    assert list(plain.chosen(range(3))) == each


def test_others_can_follow(
    plain: PlainMessages, each: list[Message], digests: list[bytes] | None
) -> None:
    plain += PlainMessages([b"d"], None if digests is None else [b"4"])
    assert list(plain) == [*each, Message(b"d", digest=None if digests is None else b"4")]
