"""Receivers of sessions, against a broker that a test scripts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bendybus.amqp.outcomes import AmqpError
from bendybus.amqp.performatives import Attach
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.terminus import Source
from bendybus.amqp.values import AmqpArray, Int, Long, Symbol, Timestamp, Uint
from bendybus.client.errors import SessionLockLost, SessionUnavailable, TimedOut
from bendybus.client.managing import ManagedEntity
from bendybus.client.message import Message
from bendybus.client.session_receiving import SESSION_FILTER, SessionReceiving
from bendybus.client.settlement import COMPLETE
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker, address_of

LATER = 30.0
LOCKED_UNTIL = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
TICKS = (LOCKED_UNTIL - datetime(1, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 10


def granting(session_id: str) -> ScriptedBroker:
    """Make a broker that grants one session whatever was asked for."""
    broker = ScriptedBroker()

    def answer(link: AmqpLink, attach: Attach) -> dict[str, Any]:
        del link
        if address_of(attach) != "from orders":
            return {}
        return {
            "source": Source(address="orders", filter={SESSION_FILTER: session_id}),
            "properties": {Symbol("com.microsoft:locked-until-utc"): Long(TICKS)},
        }

    broker.attach_answer = answer
    return broker


def asked(broker: ScriptedBroker) -> Attach:
    """Return the Attach by which the session was asked for."""
    [attach] = [each for each in broker.attaches if address_of(each) == "from orders"]
    return attach


def accepted(shell: MemoryShell, session_id: str | None = "s1") -> SessionReceiving:
    receiving = SessionReceiving(shell.connector, "orders", prefetch=0, session_id=session_id)
    shell.run(receiving.accept(20))
    return receiving


@pytest.mark.spec("R4")
@pytest.mark.parametrize("wanted", ["s1", None])
def test_a_session_is_asked_for_by_a_filter_that_is_bare_or_null(wanted: str | None) -> None:
    shell = MemoryShell(broker := granting("s1"))
    receiving = accepted(shell, wanted)
    attach = asked(broker)
    assert isinstance(attach.source, Source)
    assert attach.source.filter == {"com.microsoft:session-filter": wanted}
    assert attach.properties == {"com.microsoft:timeout": Uint(20_000)}
    assert receiving.session_id == "s1"
    assert receiving.locked_until == LOCKED_UNTIL


def test_a_session_that_another_holds_is_unavailable() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    error = AmqpError("com.microsoft:session-cannot-be-locked", "Held by another.", {})
    broker.refusals["from orders"] = error
    with pytest.raises(SessionUnavailable, match="Held by another"):
        accepted(shell)


def test_a_broker_that_never_answers_is_given_up_and_the_link_taken_back() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    broker.is_silent_on.add("from orders")
    with pytest.raises(TimedOut):
        accepted(shell, None)
    assert shell.time == pytest.approx(25)
    shell.exchange()
    assert broker.detached == [asked(broker).name]


def test_a_session_is_not_taken_again_by_itself_after_a_loss() -> None:
    shell = MemoryShell(granting("s1"), second := granting("s1"))
    receiving = accepted(shell)
    shell.cut()
    with pytest.raises(SessionLockLost, match="accept it again"):
        shell.run(receiving.receive(1, LATER, LATER))
    assert "from orders" not in second.links


def test_messages_of_a_session_are_received_and_settled_over_its_link() -> None:
    shell = MemoryShell(broker := granting("s1"))
    receiving = accepted(shell)
    broker.to_deliver.append(Message(b"a", session_id="s1").encode())
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    shell.run(receiving.settle([message], COMPLETE, LATER))
    assert message.session_id == "s1"
    assert [tags for tags, _, _ in broker.settlements] == [[message.lock_token]]


def test_the_state_of_a_session_is_set_and_read() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    kept: dict[str, object] = {}

    def keep(body: Any) -> tuple[int, object]:
        kept[body["session-id"]] = body["session-state"]
        return 200, None

    broker.operations["set-session-state"] = keep
    broker.operations["get-session-state"] = lambda body: (
        200,
        {"session-state": kept.get(body["session-id"])},
    )
    entity = ManagedEntity(shell.connector, "orders")
    assert shell.run(entity.session_state("s1", LATER)) is None
    shell.run(entity.set_session_state("s1", b"half-way", LATER))
    assert shell.run(entity.session_state("s1", LATER)) == b"half-way"


def test_renewing_a_session_moves_the_end_of_its_lock() -> None:
    shell = MemoryShell(broker := granting("s1"))
    receiving = accepted(shell)
    at = LOCKED_UNTIL + timedelta(minutes=1)
    broker.operations["renew-session-lock"] = lambda _: (
        200,
        {"expiration": Timestamp(int(at.timestamp() * 1000))},
    )
    assert shell.run(receiving.renew(LATER)) == at
    assert receiving.locked_until == at
    assert broker.requests == [("renew-session-lock", {"session-id": "s1"})]


def test_a_session_lock_that_ended_cannot_be_renewed() -> None:
    shell = MemoryShell(broker := granting("s1"))
    receiving = accepted(shell)
    lost = Symbol("com.microsoft:session-lock-lost")
    broker.operations["renew-session-lock"] = lambda _: (410, lost)
    with pytest.raises(SessionLockLost):
        shell.run(receiving.renew(LATER))


def test_listing_sessions_asks_page_after_page() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    ids = [f"s{number}" for number in range(150)]

    def page(body: Any) -> tuple[int, object]:
        some = ids[body["skip"] : body["skip"] + body["top"]]
        return 200, {"skip": Int(len(some)), "sessions-ids": AmqpArray(str, tuple(some))}

    broker.operations["get-message-sessions"] = page
    assert shell.run(ManagedEntity(shell.connector, "orders").sessions(LATER)) == ids
    assert len(broker.requests) == 2
