"""Work that failed is tried again only if that can help, and not for ever."""

import pytest

from bendybus.pipelines import patience
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.patience import patiently
from bendybus.pipelines.reading import Reading

PASSING = "Traceback (most recent call last):\nbendybus.client.errors.ConnectionLost: away\n"
LASTING = "Traceback (most recent call last):\nbendybus.client.errors.Unauthorized: wrong key\n"


class Heard:
    """As much of a pipeline's progress as matters here."""

    def __init__(self) -> None:
        self.reading = Reading("sending")
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)


class Work:
    """Fails as often as it is told, then is done."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)

    def __call__(self) -> str:
        if not self.failures:
            return "done"
        failed = PipelineFailed("one line")
        failed.__cause__ = RuntimeError(self.failures.pop(0))
        raise failed


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_SECONDS_MIN", 0.0)


def test_what_passes_is_waited_for_and_said() -> None:
    told = Heard()
    assert patiently(Work(PASSING, PASSING), told) == "done"
    assert told.stages == ["waiting (one line)", "sending"] * 2


def test_what_does_not_pass_ends_the_work_at_once() -> None:
    work = Work(LASTING, PASSING)
    with pytest.raises(PipelineFailed):
        patiently(work, Heard())
    assert work.failures == [PASSING]


def test_an_outage_that_is_too_long_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "OUTAGE_SECONDS_MAX", -1.0)
    with pytest.raises(PipelineFailed):
        patiently(Work(PASSING), Heard())
