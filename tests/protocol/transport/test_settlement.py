"""Dispositions in both directions (AMQP 1.0 §2.6.12, §2.7.6)."""

from __future__ import annotations

from typing import Any

import pytest

from bendybus.amqp import session_input
from bendybus.amqp.conditions import RESOURCE_LIMIT_EXCEEDED
from bendybus.amqp.events import DispositionReceived, SenderDispositionReceived, SessionFailed
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Detach,
    Disposition,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from bendybus.amqp.session import AmqpLink, OutgoingDelivery
from tests.protocol.transport.conversation import Peer, flow, frame, one

FIRST = 0x40000000


def sent(peer: Peer, link: AmqpLink, count: int) -> list[OutgoingDelivery]:
    """Send deliveries, unsettled."""
    peer.say(flow(handle=link.peer_handle, delivery_count=link.delivery_count, link_credit=count))
    deliveries = [link.send(b"x", b"t" * 16, settled=False, parcel=n) for n in range(count)]
    peer.heard()
    return [delivery for delivery in deliveries if delivery is not None]


def outcome(first: int, last: int | None = None, **fields: Any) -> Disposition:
    """Return a receiving peer's disposition."""
    fields.setdefault("state", Accepted())
    fields.setdefault("settled", True)
    return Disposition(role=True, first=first, last=last, **fields)


@pytest.mark.amqp("2.7.6")
def test_a_receivers_disposition_of_a_range_is_resolved_to_deliveries() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    deliveries = sent(peer, link, 5)
    event = one(DispositionReceived, peer.say(outcome(FIRST + 1, FIRST + 3)))
    assert event == DispositionReceived(link, deliveries[1:4], Accepted(), True)
    assert list(link.session.unsettled.values()) == [deliveries[0], deliveries[4]]


@pytest.mark.amqp("2.7.6")
def test_an_outcome_that_is_not_settled_is_told_once_and_waits_for_our_answer() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    [delivery] = sent(peer, link, 1)
    event = one(DispositionReceived, peer.say(outcome(FIRST, settled=False)))
    assert (event.deliveries, event.settled) == ([delivery], False)
    assert peer.say(outcome(FIRST, settled=False), outcome(FIRST, state=Released())) == []
    link.settle_sent([delivery], Accepted())
    assert peer.bodies() == [
        Disposition(role=False, first=FIRST, last=FIRST, settled=True, state=Accepted())
    ]
    assert peer.say(outcome(FIRST)) == []


@pytest.mark.amqp("3.4.1")
@pytest.mark.parametrize(
    "state",
    [None, Received(0, 7), TransactionalState(b"txn"), TransactionalState(b"txn", Received(0, 7))],
    ids=["none", "received", "transactional", "transactional received"],
)
def test_how_far_a_receiver_has_come_is_no_outcome_and_settles_nothing(state: object) -> None:
    peer = Peer().opened().begun()
    [delivery] = sent(peer, peer.attached(receiver=True), 1)
    assert peer.say(outcome(FIRST, state=state, settled=False)) == []
    assert one(DispositionReceived, peer.say(outcome(FIRST))).deliveries == [delivery]


def test_saying_everything_again_and_again_costs_no_more_than_saying_it_once() -> None:
    peer = Peer().opened().begun()
    deliveries = sent(peer, peer.attached(receiver=True), 50)
    states = (Accepted(), Released()) * 500
    again = b"".join(frame(outcome(FIRST, FIRST + 49, state=s, settled=False)) for s in states)
    told = [each for each in peer.write(again) if isinstance(each, DispositionReceived)]
    assert [each.deliveries for each in told] == [deliveries]


def test_a_peer_that_looks_for_what_is_not_there_without_end_loses_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_input, "VAIN_IDS_MAX", 500)
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    sent(peer, link, 50)
    in_vain = frame(outcome(FIRST - 1000, FIRST - 1))
    assert peer.write(in_vain * 10) == []
    sent(peer, link, 1)
    assert peer.write(in_vain * 9) == []
    failed = one(SessionFailed, peer.write(in_vain))
    assert failed.condition == RESOURCE_LIMIT_EXCEEDED


@pytest.mark.amqp("2.7.6")
@pytest.mark.parametrize(
    ("first", "last"), [(FIRST + 7, None), (5, 6), (FIRST - 3, FIRST - 1), (FIRST, FIRST - 1)]
)
def test_ids_that_we_do_not_know_are_ignored(first: int, last: int | None) -> None:
    peer = Peer().opened().begun()
    sent(peer, peer.attached(receiver=True), 2)
    assert peer.say(outcome(first, last)) == []


def test_a_range_over_everything_costs_nothing() -> None:
    peer = Peer().opened().begun()
    deliveries = sent(peer, peer.attached(receiver=True), 3)
    event = one(DispositionReceived, peer.say(outcome(FIRST - 1000, FIRST + 2**31 - 2000)))
    assert event.deliveries == deliveries


@pytest.mark.amqp("2.7.6")
def test_a_range_over_several_links_makes_an_event_for_each() -> None:
    peer = Peer().opened().begun()
    first, second = peer.attached(handle=0, receiver=True), peer.attached(handle=1, receiver=True)
    mine, theirs = sent(peer, first, 2), sent(peer, second, 1)
    mine_again = sent(peer, first, 1)
    events = peer.say(outcome(FIRST, FIRST + 3))
    assert [(e.link, e.deliveries) for e in events if isinstance(e, DispositionReceived)] == [
        (first, mine),
        (second, theirs),
        (first, mine_again),
    ]


def test_dispositions_alike_that_come_together_make_one_event() -> None:
    peer = Peer().opened().begun()
    deliveries = sent(peer, peer.attached(receiver=True), 6)
    states = [Accepted(), Accepted(), Released(), Modified(True, False), Modified(True, False)]
    data = b"".join(frame(outcome(FIRST + n, state=state)) for n, state in enumerate(states))
    data += frame(outcome(FIRST + 5, state=Modified(True, False), settled=False))
    events = peer.write(data)
    assert [
        (e.deliveries, e.state, e.settled) for e in events if isinstance(e, DispositionReceived)
    ] == [
        (deliveries[0:2], Accepted(), True),
        (deliveries[2:3], Released(), True),
        (deliveries[3:5], Modified(True, False), True),
        (deliveries[5:6], Modified(True, False), False),
    ]


@pytest.mark.parametrize(
    "state",
    [
        None,
        Rejected(AmqpError("com.microsoft:dead-letter", None, {"DeadLetterReason": "r"})),
        Modified(None, True, {"k": "v"}),
        TransactionalState(b"txn", Accepted()),
    ],
    ids=["none", "rejected", "modified", "transactional"],
)
def test_every_state_comes_through(state: object) -> None:
    peer = Peer().opened().begun()
    sent(peer, peer.attached(receiver=True), 1)
    assert one(DispositionReceived, peer.say(outcome(FIRST, state=state))).state == state


@pytest.mark.amqp("2.7.6")
def test_a_senders_disposition_tells_how_our_outcome_fared() -> None:
    peer = Peer().opened().begun()
    session = peer.attached().session
    body = Disposition(role=False, first=4, last=6, settled=True, state=Accepted())
    assert peer.say(body) == [SenderDispositionReceived(session, 4, 6, Accepted(), True)]
    body.last = None
    assert one(SenderDispositionReceived, peer.say(body)).last_id == 4


@pytest.mark.amqp("2.7.6")
@pytest.mark.parametrize("settled", [True, False])
def test_we_settle_what_came_in_with_one_frame_for_a_range(settled: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    rejected = Rejected(AmqpError("amqp:not-allowed", "no session id"))
    link.settle(3, 9, rejected, settled=settled)
    assert peer.bodies() == [
        Disposition(role=True, first=3, last=9, settled=settled, state=rejected)
    ]


@pytest.mark.amqp("2.7.6")
def test_we_settle_what_we_sent_with_one_frame_for_each_run_of_ids() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    deliveries = sent(peer, link, 6)
    link.settle_sent([deliveries[n] for n in (4, 0, 1, 5, 2)], Modified(None, True, None))
    ranges = [(body.first - FIRST, body.last - FIRST) for body in peer.bodies()]
    assert ranges == [(0, 2), (4, 5)]
    assert list(link.session.unsettled.values()) == [deliveries[3]]


def test_deliveries_are_forgotten_with_their_link_and_others_are_not() -> None:
    peer = Peer().opened().begun()
    gone, stays = peer.attached(handle=0, receiver=True), peer.attached(handle=1, receiver=True)
    sent(peer, gone, 2)
    [delivery] = sent(peer, stays, 1)
    peer.say(Detach(handle=0, closed=True))
    gone.detach()
    assert stays.session.unsettled == {FIRST + 2: delivery}
    assert peer.say(outcome(FIRST, FIRST + 1)) == []
