"""Runs scenarios with Apache Proton's own transaction client, one after the other.

A program for the Python that Proton is installed for: it imports nothing of ours. Like the other
clients it is told its cases in a variable, and reports each as a line of JSON,
`{"queue": ..., "error": null or text}`.
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any, ClassVar

import proton  # type: ignore[import-not-found]  # it has an environment of its own
from proton import Delivery, Message, symbol
from proton.handlers import (  # type: ignore[import-not-found]  # likewise
    TransactionalClientHandler,
)
from proton.reactor import AtLeastOnce, Container  # type: ignore[import-not-found]  # likewise

SCENARIO_SECONDS_MAX = 60
TOO_MANY = 101


class Scenario(TransactionalClientHandler):  # type: ignore[misc]  # Proton has no types here
    """Sends a message, receives it, declares a transaction; what then follows is a subclass's.

    In the end a last message is sent and received. Order is kept, so whatever else there is comes
    before it.
    """

    settle_before_discharge = False
    expected: ClassVar[list[str]]

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=True)
        self.url = url
        self.queue = queue
        self.bodies: list[str] = []
        self.failures: list[str] = []
        self.is_over = False
        self.first: Any = None
        self._next: str | None = "first"

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(
            self.url, allowed_mechs="PLAIN", sasl_enabled=True, reconnect=False
        )
        self.sender = self.container.create_sender(self.connection, self.queue)
        self.receiver = self.container.create_receiver(
            self.connection, self.queue, options=AtLeastOnce()
        )
        self.timer = self.container.schedule(SCENARIO_SECONDS_MAX, self)

    def on_timer_task(self, event: Any) -> None:
        self.end("it took too long")

    def on_sendable(self, event: Any) -> None:
        if event.sender == self.sender and self._next:
            self.sender.send(message(self._next))
            self._next = None
            self.receiver.flow(1)

    def on_message(self, event: Any) -> None:
        body = bytes(event.message.body).decode()
        if body == "first":
            self.first = event.delivery
            self.container.declare_transaction(
                self.connection,
                handler=self,
                settle_before_discharge=self.settle_before_discharge,
            )
            return
        self.bodies.append(body)
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()
        if body == "last":
            self.end(None)
        else:
            self.receiver.flow(1)

    def look(self) -> None:
        """Receive what there is, up to a last message."""
        self.sender.send(message("last"))
        self.receiver.flow(1)

    def work(self, transaction: Any) -> None:
        """Do something in the transaction, and discharge it."""
        raise NotImplementedError

    def on_transaction_declared(self, event: Any) -> None:
        self.work(event.transaction)

    def on_transaction_declare_failed(self, event: Any) -> None:
        self.end("the declare failed")

    def on_transport_error(self, event: Any) -> None:
        self.end(f"the connection failed: {event.transport.condition}")

    def on_link_error(self, event: Any) -> None:
        self.end(f"a link failed: {event.link.remote_condition}")

    def end(self, failure: str | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.failures += [failure] if failure else []
            self.timer.cancel()
            self.connection.close()


class ACommitSettlesAndSends(Scenario):
    """What was accepted is gone, and what was sent is there."""

    expected: ClassVar[list[str]] = ["one", "two", "last"]

    def work(self, transaction: Any) -> None:
        self.accept(self.first, transaction)
        transaction.send(self.sender, message("one"))
        transaction.send(self.sender, message("two"))
        transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.look()

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.end(f"the commit failed: {event.delivery.remote.condition}")


class ACommitOfSettledDeliveries(ACommitSettlesAndSends):
    """The same when the client settles before it discharges."""

    settle_before_discharge = True


class AnAbortSendsNothing(Scenario):
    """Nothing that was sent is there, and what was accepted is locked as before."""

    expected: ClassVar[list[str]] = ["last"]

    def work(self, transaction: Any) -> None:
        self.accept(self.first, transaction)
        transaction.send(self.sender, message("one"))
        transaction.abort()

    def on_transaction_aborted(self, event: Any) -> None:
        self.look()


class ACommitThatIsRefused(Scenario):
    """A part that was refused keeps the others from being committed."""

    expected: ClassVar[list[str]] = ["last"]

    def work(self, transaction: Any) -> None:
        self.accept(self.first, transaction)
        for number in range(TOO_MANY):
            transaction.send(self.sender, message(f"{number}"))
        transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.end("too many messages were committed")

    def on_transaction_commit_failed(self, event: Any) -> None:
        condition = event.delivery.remote.condition
        if condition is None or condition.name != "amqp:transaction:rollback":
            self.end(f"the commit failed otherwise: {condition}")
        self.look()


SCENARIOS = {
    "a_commit_settles_and_sends": ACommitSettlesAndSends,
    "a_commit_of_settled_deliveries": ACommitOfSettledDeliveries,
    "an_abort_sends_nothing": AnAbortSendsNothing,
    "a_commit_that_is_refused": ACommitThatIsRefused,
}


def message(body: str) -> Any:
    """Make a message; all have one key, so that a partitioned queue keeps them in order."""
    return Message(body=body.encode(), annotations={symbol("x-opt-partition-key"): "k"})


def run(case: dict[str, str], url: str) -> str | None:
    """Return why a case failed, or None."""
    scenario = SCENARIOS[case["scenario"]](url, case["queue"])
    try:
        Container(scenario).run()
    except Exception:  # noqa: BLE001 - whatever ends a scenario is its result
        return traceback.format_exc()
    if scenario.failures:
        return "; ".join(scenario.failures)
    if scenario.bodies != scenario.expected:
        return f"{scenario.bodies} came, not {scenario.expected}"
    return None


def main() -> None:
    """Run the cases of the order, and report each."""
    order = json.loads(os.environ["BENDYBUS_COMPAT_ORDER"])
    found = f"{proton.VERSION_MAJOR}.{proton.VERSION_MINOR}.0"
    assert found == order["version"], f"found version {found}; run scripts/setup-tests"
    listed = json.loads(Path(__file__).with_name("scenarios.json").read_text())
    assert listed == list(SCENARIOS), "scenarios.json differs from the code"
    fields: dict[str, str] = dict(re.findall(r"(\w+)=([^;]*)", order["connectionString"]))
    host = fields["Endpoint"].removeprefix("sb://").rstrip("/")
    url = f"amqp://{fields['SharedAccessKeyName']}:{fields['SharedAccessKey']}@{host}"
    for case in order["cases"]:
        sys.stdout.write(json.dumps({"queue": case["queue"], "error": run(case, url)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
