"""The management commands at a Service Bus that has nothing of our own, and the shell's Tab key."""

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bendybus.atom.descriptions import Facts, MessageCounts
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.model.entity import EntityStatus, Queue, QueueProperties, Subscription, Topic
from tests.cli.another_service import AnotherService, Lists, another_service
from tests.cli.command import run

GIGABYTE = 1024**3
LISTS: Lists = {
    "/$Resources/queues": [
        (Queue("orders"), Facts(size_bytes=GIGABYTE * 95 // 100)),
        (Queue("old-orders"), Facts(counts=MessageCounts(transfer_dead_letter=3))),
        (Queue("shut", QueueProperties(status=EntityStatus.SEND_DISABLED)), Facts()),
    ],
    "/$Resources/topics": [(Topic("other"), Facts())],
    "/other/subscriptions": [(Subscription("audit"), Facts()), (Subscription("all"), Facts())],
}


@pytest.fixture
def service() -> Iterator[AnotherService]:
    with another_service(dict(LISTS)) as service:
        yield service


def answered(service: AnotherService, *arguments: str) -> tuple[int, str, str]:
    done = run(*arguments, **service.variables)
    return done.returncode, done.stdout, done.stderr


def test_entities_of_any_service_are_listed(service: AnotherService) -> None:
    code, output, _ = answered(service, "queue", "list", "--output", "json")
    assert code == 0
    assert [each["name"] for each in json.loads(output)] == ["orders", "old-orders", "shut"]
    code, _, errors = answered(service, "queue", "show", "--name", "nowhere")
    assert (code, errors) == (1, "bendybus: There is no 'nowhere'.\n")


def test_the_status_does_without_stores_and_readers(service: AnotherService) -> None:
    code, output, errors = answered(service, "status")
    assert (code, errors) == (0, "")
    assert "elsewhere (Standard): 6 entities, stores not shown" in output
    assert {"/$stores", "/$readers"} <= set(service.asked), "it was asked, and does not know them"


def test_what_only_this_broker_has_is_said_to_be_missing(service: AnotherService) -> None:
    code, _, errors = answered(service, "store", "list")
    assert code == 1
    assert "not as Bendybus does" in errors


def test_a_limit_is_not_taken_for_a_missing_right(service: AnotherService) -> None:
    code, _, errors = answered(service, "queue", "create", "--name", "one-more")
    assert code == 1
    assert "maximum number of resources" in errors
    assert "--connection-string" not in errors, "another key would not help"


def test_the_doctor_finds_a_wrong_clock_and_what_is_nearly_full(service: AnotherService) -> None:
    service.skew = timedelta(minutes=-3)
    code, output, _ = answered(service, "doctor")
    assert code == 1
    assert "the clocks differ by 1" in output
    assert "set both by NTP" in output
    assert "'orders' is 95% full" in output
    assert "'old-orders' has 3 messages that could not be forwarded" in output
    assert "'shut' is SendDisabled" in output


def test_the_doctor_finds_that_amqp_is_shut(service: AnotherService) -> None:
    elsewhere = service.variables["BENDYBUS_CONNECTION_STRING"].replace(str(service.port), "1")
    variables = {**service.variables, "BENDYBUS_CONNECTION_STRING": elsewhere}
    done = run("doctor", **variables)
    assert done.returncode == 1
    assert "nothing answers AMQP at 127.0.0.1:1" in done.stdout
    assert "--amqp-port" in done.stdout


def test_the_doctor_tells_of_a_certificate_that_ends_soon(tmp_path: Path) -> None:
    files = AuthorityFolder(tmp_path / "tls")
    make_certificate(files, ["127.0.0.1"], days=7, now=datetime.now(UTC))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.server, files.server_key)
    with another_service({**LISTS, "/$Resources/queues": []}, tls) as service:
        variables = {
            **service.variables,
            "BENDYBUS_MANAGEMENT_URL": f"https://127.0.0.1:{service.port}",
            "BENDYBUS_AUTHORITY": str(files.authority),
        }
        done = run("doctor", **variables)
        completed = run(**variables, **asking_bash("bendybus", "topic", "show", "--name", ""))
    assert "the certificate ends at" in done.stdout
    assert "`bendybus cert --renew`" in done.stdout
    assert done.returncode == 0, "there is time left"
    assert completed.stdout.split() == ["other"], "the Tab key trusts the authority, too"


# The Tab key


def asking_bash(*words: str) -> dict[str, str]:
    """Return what bash tells the command when somebody presses Tab behind these words."""
    return {
        "_BENDYBUS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("qu",), ["queue"]),
        (("queue", "show", "--name", "o"), ["orders", "old-orders"]),
        (("topic", "update", "--name", ""), ["other"]),
        (("send", "o"), ["orders", "old-orders", "other"]),
        (("peek", "other", "--subscription", "a"), ["audit", "all"]),
        (("subscription", "show", "--topic-name", "other", "--name", "au"), ["audit"]),
        (("rule", "list", "--topic-name", "other", "--subscription-name", "al"), ["all"]),
        (("queue", "authorization-rule", "list", "--queue-name", "sh"), ["shut"]),
        (("peek", "orders", "--state", "d"), ["deferred", "dead-letter"]),
        (("peek", "nowhere", "--subscription", ""), []),
    ],
)
def test_the_tab_key_completes(
    service: AnotherService, words: tuple[str, ...], expected: list[str]
) -> None:
    done = run(**service.variables, **asking_bash("bendybus", *words))
    assert done.stdout.split() == expected


def test_the_tab_key_asks_the_broker_of_the_profile(
    service: AnotherService, tmp_path: Path
) -> None:
    folder = {"XDG_CONFIG_HOME": str(tmp_path)}
    where = service.variables
    added = run(
        *("profile", "add", "there", "--management-url", where["BENDYBUS_MANAGEMENT_URL"]),
        *("--connection-string", where["BENDYBUS_CONNECTION_STRING"]),
        **folder,
    )
    assert added.returncode == 0, added.stderr
    named = ("bendybus", "--profile", "there", "queue", "show", "--name", "sh")
    assert run(**folder, **asking_bash(*named)).stdout.split() == ["shut"]
    run("profile", "use", "there", **folder)
    for words in (("bendybus", "--profile", "t"), ("bendybus", "profile", "remove", "t")):
        assert run(**folder, **asking_bash(*words)).stdout.split() == ["there"]
    unnamed = ("bendybus", "queue", "show", "--name", "sh")
    assert run(**folder, **asking_bash(*unnamed)).stdout.split() == ["shut"]


def test_the_tab_key_is_silent_where_nobody_answers() -> None:
    nobody = {"BENDYBUS_MANAGEMENT_URL": "http://127.0.0.1:1"}
    done = run(**nobody, **asking_bash("bendybus", "queue", "show", "--name", ""))
    assert (done.stdout.strip(), done.stderr) == ("", "")
