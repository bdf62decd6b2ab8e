"""A short fuzz run with every test run; `make prove` has the long one."""

import random

import pytest

from bendybus.amqp.frames import encode_frame
from bendybus.amqp.performatives import Close
from tests.fuzz.campaign import CORPUS, Subject, check, read_corpus, run

ROUNDS = 800


def test_the_kept_streams_still_hold() -> None:
    kept = read_corpus()
    assert len(kept) > 20, f"the corpus in {CORPUS.name} is gone"
    for data in kept:
        check(data, random.Random(0))


def test_spoiled_conversations_never_surprise() -> None:
    # pytest-randomly seeds `random` from the seed that it prints.
    for _ in run(random.getrandbits(32), range(ROUNDS)):
        pass


def test_the_check_notices_words_after_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    def say_more(self: Subject, data: bytes) -> None:
        assert data == b""
        self.said = 2 * encode_frame(0, Close())

    monkeypatch.setattr(Subject, "take", say_more)
    with pytest.raises(AssertionError, match="after Close"):
        check(b"", random.Random(0))
