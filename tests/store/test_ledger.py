"""The judge of the fault tests is judged: it sees planted violations, and no others."""

from pathlib import Path

import apsw
import pytest

from bendybus.store.sqlite.database import Pacing, open_database
from tests.store.ledger import Ledger, inspect


class Story:
    """A ledger with moments that a test counts by hand."""

    def __init__(self) -> None:
        self.moment = 0
        self.ledger = Ledger(lambda: self.moment)

    def append(self, *contents: bytes, asked: int, answered: int | None) -> None:
        self.moment = asked
        entry = self.ledger.append(contents)
        if answered is None:
            return
        self.moment = answered
        self.ledger.answer(entry)

    def removal(self, content: bytes, *, asked: int, answered: int | None) -> None:
        self.moment = asked
        entry = self.ledger.removal(content)
        if answered is None:
            return
        self.moment = answered
        self.ledger.answer(entry)


@pytest.fixture
def story() -> Story:
    story = Story()
    story.append(b"a", b"b", asked=10, answered=20)
    story.removal(b"a", asked=30, answered=40)
    return story


@pytest.mark.parametrize(
    ("moment", "present", "expected"),
    [
        (15, [], ""),
        (15, [b"a", b"b"], ""),
        (15, [b"a"], "only some"),
        (20, [b"a", b"b"], ""),
        (20, [], "lost"),
        (20, [b"b"], "lost"),
        (35, [b"a", b"b"], ""),
        (35, [b"b"], ""),
        (35, [b"a"], "lost"),
        (40, [b"b"], ""),
        (40, [b"a", b"b"], "came back"),
        (40, [b"b", b"b"], "twice"),
        (40, [b"b", b"x"], "never sent"),
    ],
)
def test_the_ledger_tells_what_may_be_there_at_each_moment(
    story: Story, moment: int, present: list[bytes], expected: str
) -> None:
    violations = story.ledger.violations(present, moment)
    assert bool(violations) == bool(expected)
    assert expected in " ".join(violations)


def test_what_was_refused_must_not_be_there() -> None:
    story = Story()
    story.ledger.refuse(story.ledger.append([b"a"]))
    story.moment = 1
    assert story.ledger.violations([]) == []
    assert "refused" in story.ledger.violations([b"a"])[0]


def test_a_removal_that_was_refused_must_have_left_the_message() -> None:
    story = Story()
    story.append(b"a", asked=1, answered=2)
    story.ledger.refuse(story.ledger.removal(b"a"))
    story.moment = 5
    assert story.ledger.violations([b"a"]) == []
    assert "lost" in story.ledger.violations([])[0]


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("UPDATE queue SET message_count = 1 WHERE number = 1", "counts"),
        ("UPDATE queue SET message_bytes = 1 WHERE number = 1", "bytes off"),
        ("INSERT INTO body VALUES (1, x'00')", "strays 1"),
        ("DELETE FROM queue", "catalog"),
    ],
)
def test_an_inconsistent_file_is_found(tmp_path: Path, planted: str, expected: str) -> None:
    path = tmp_path / "store.db"
    open_database(path, Pacing()).close()
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO entity (number, name, kind, version, properties, places)"
        " VALUES (1, 'e', 'queue', 1, '{}', '[]')"
    )
    connection.execute(
        "INSERT INTO queue (number, entity, fragment, sub_queue) VALUES (1, 1, 0, 0)"
    )
    connection.execute(
        "INSERT INTO queue (number, entity, fragment, sub_queue) VALUES (2, 1, 0, 1)"
    )
    assert inspect(path) == ([], [])
    connection.execute(planted)
    connection.close()
    assert expected in " ".join(inspect(path)[1])
