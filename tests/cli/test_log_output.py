"""The log: one line per event, no secrets, no floods; and a refusal is found by its id."""

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from bendybus.cli.log_output import (
    REPEAT_SECONDS,
    REPEATS_MAX,
    FewRepeats,
    hide_secrets,
    write_log,
)
from bendybus.settings import LogFormat, LogLevel
from bendybus.testing.broker_process import broker_process
from tests.http.rest_client import live_token

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "namespace.yaml"
LOGGER: Final = logging.getLogger("bendybus.testing.log")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger("bendybus")
    before = root.level, root.propagate, list(root.handlers)
    yield
    root.level, root.propagate, root.handlers = before
    root.setLevel(before[0])


def written(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_object_on_one_line_with_its_fields(stream: io.StringIO) -> None:
    write_log(LogFormat.JSON, LogLevel.INFO, stream)
    LOGGER.warning("store %d\nfailed", 3, extra={"entity": "orders", "code": "store-failed"})
    [entry] = written(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert entry == {
        "level": "warning",
        "logger": "bendybus.testing.log",
        "message": "store 3\nfailed",
        "entity": "orders",
        "code": "store-failed",
    }


def test_a_defect_comes_with_its_traceback(stream: io.StringIO) -> None:
    write_log(LogFormat.JSON, LogLevel.INFO, stream)
    LOGGER.error("failed", exc_info=ValueError("SharedAccessKey=abc123"))
    [entry] = written(stream)
    assert "ValueError: SharedAccessKey=(hidden)" in entry["exception"]


def test_text_has_the_fields_behind_the_message(stream: io.StringIO) -> None:
    write_log(LogFormat.TEXT, LogLevel.WARNING, stream)
    LOGGER.info("not told")
    LOGGER.warning("store %d failed", 3, extra={"entity": "orders"})
    [line] = stream.getvalue().splitlines()
    assert line.endswith("Z warning: store 3 failed entity=orders")


@pytest.mark.parametrize(
    "text",
    [
        "Endpoint=sb://x;SharedAccessKeyName=Root;SharedAccessKey=s3cr3t+/=;EntityPath=q",
        "SharedAccessSignature sr=http%3A%2F%2Fx&sig=s3cr3t%2B&se=1&skn=Root",
        "Authorization: Bearer s3cr3t.token",
        'the body was {"primaryKey": "s3cr3t"}',
        "store 1 is at postgresql://bus:s3cr3t@db/orders",
        "cannot connect with host=db user=bus password=s3cr3t dbname=orders",
        "token eyJhbGciOiJub25lIn0.eyJzdWIiOiJzM2NyM3QifQ.s3cr3t is not good",
    ],
)
def test_keys_and_tokens_are_hidden(text: str) -> None:
    hidden = hide_secrets(text)
    assert "s3cr3t" not in hidden
    assert "(hidden)" in hidden


def test_what_names_a_rule_or_an_entity_is_not_hidden() -> None:
    text = "the rule Root of 'orders' has no right; partition key of fragment 3"
    assert hide_secrets(text) == text


def test_what_repeats_is_cut_short_and_counted() -> None:
    time = [0.0]
    few = FewRepeats(lambda: time[0])

    def passes(text: str) -> bool:
        return few.filter(logging.LogRecord("bendybus", 30, "", 0, text, (), None))

    assert [passes("refused") for _ in range(REPEATS_MAX + 5)].count(True) == REPEATS_MAX
    assert passes("something else")
    time[0] += REPEAT_SECONDS
    record = logging.LogRecord("bendybus", 30, "", 0, "refused", (), None)
    assert few.filter(record)
    assert record.__dict__["repeated"] == 5


def test_a_refusal_is_found_by_its_tracking_id_and_no_key_is_ever_told() -> None:
    options = ("--log-format", "json", "--log-level", "info")
    with broker_process(EXAMPLE, options=options) as broker:
        token = live_token()
        forged = token.replace("sig=", "sig=x")
        with httpx.Client(base_url=broker.management_url, trust_env=False) as client:
            unknown = client.post("/nothing/messages", headers={"Authorization": token})
            refused = client.post("/orders/messages", headers={"Authorization": forged})
            bare = client.post("/orders/messages", headers={"Authorization": "SAS_KEY_VALUE"})
        for answer in (unknown, refused, bare):
            assert answer.status_code in {401, 404}
            found = re.search(r"TrackingId:([\w-]+)", answer.text)
            assert found is not None
            lines = [line for line in broker.log.splitlines() if found[1] in line]
            [entry] = map(json.loads, lines)
            assert (entry["status"], entry["tracking_id"]) == (answer.status_code, found[1])
        # The announcement, which is no event, shows the development key on purpose.
        events = "\n".join(line for line in broker.log.splitlines() if line.startswith("{"))
        for secret in ("SAS_KEY_VALUE", token, forged, token.split("sig=")[1].split("&")[0]):
            assert secret not in events
