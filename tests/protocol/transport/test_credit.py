"""Link credit, drain and echo (AMQP 1.0 §2.6.7, §2.7.4)."""

from __future__ import annotations

import pytest

from bendybus.amqp.deliveries import UNSETTLED_MAX
from bendybus.amqp.events import FlowReceived
from bendybus.amqp.faults import CannotSend
from bendybus.amqp.performatives import Flow
from tests.protocol.transport.conversation import Peer, flow, one, only, transfer

TAG = b"t" * 16


@pytest.mark.amqp("2.6.7")
def test_credit_is_the_peers_count_plus_its_credit_less_what_we_have_sent() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    assert (link.credit, link.sendable()) == (0, 0)
    assert one(FlowReceived, peer.say(flow(handle=0, delivery_count=0, link_credit=3))).link is link
    for left in (2, 1, 0):
        link.send(b"x", TAG, settled=True)
        assert link.sendable() == left
    with pytest.raises(CannotSend):
        link.send(b"x", TAG, settled=True)
    peer.say(flow(handle=0, delivery_count=2, link_credit=3))
    assert link.sendable() == 2


@pytest.mark.amqp("2.6.7")
def test_credit_may_be_taken_back_below_what_was_used() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, delivery_count=0, link_credit=5))
    for _ in range(4):
        link.send(b"x", TAG, settled=True)
    peer.say(flow(handle=0, delivery_count=0, link_credit=1))
    assert (link.credit, link.sendable()) == (-3, 0)
    with pytest.raises(CannotSend):
        link.send(b"x", TAG, settled=True)


@pytest.mark.amqp("2.6.7")
def test_credit_without_end_is_much_and_not_negative() -> None:
    peer = Peer().opened().begun(incoming_window=2**32 - 1)
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=2**32 - 1, incoming_window=2**32 - 1))
    assert link.credit == 2**31 - 1
    # As much as may wait for the peer's word.
    assert link.sendable() == UNSETTLED_MAX


@pytest.mark.amqp("2.6.7")
def test_a_flow_without_credit_leaves_the_credit_as_it_was() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=4))
    peer.say(flow(handle=0))
    assert link.credit == 4


@pytest.mark.amqp("2.6.7")
@pytest.mark.parametrize("credit", [0, 5])
def test_a_drain_is_answered_with_the_count_moved_on_and_no_credit(credit: int) -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    one(FlowReceived, peer.say(flow(handle=0, delivery_count=0, link_credit=credit, drain=True)))
    assert link.drain
    link.answer_drain()
    sent = only(Flow, peer.bodies())
    assert (sent.handle, sent.delivery_count, sent.link_credit) == (0, credit, 0)
    assert sent.drain
    assert sent.next_incoming_id == 0
    assert (link.drain, link.credit) == (False, 0)


@pytest.mark.amqp("2.6.7")
def test_a_drain_sends_what_there_is_first() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, delivery_count=0, link_credit=5, drain=True))
    link.send(b"x", TAG, settled=True)
    link.answer_drain()
    sent = only(Flow, peer.bodies())
    assert (sent.delivery_count, sent.next_outgoing_id) == (5, 2)
    peer.say(flow(handle=0, delivery_count=5, link_credit=2))
    assert link.sendable() == 2


@pytest.mark.amqp("2.7.4")
def test_an_echo_is_answered_with_the_links_state() -> None:
    peer = Peer().opened().begun()
    sender = peer.attached(handle=0, receiver=True)
    receiver = peer.attached(handle=1)
    peer.say(flow(handle=0, link_credit=5, echo=True))
    sent = only(Flow, peer.bodies())
    assert (sent.handle, sent.delivery_count, sent.link_credit) == (0, 0, 5)
    assert (sent.available, sent.drain, sender.credit) == (0, False, 5)
    receiver.grant(7)
    peer.heard()
    peer.say(flow(handle=1, delivery_count=0, echo=True))
    sent = only(Flow, peer.bodies())
    assert (sent.handle, sent.link_credit, sent.available) == (1, 7, None)


@pytest.mark.amqp("2.7.4")
def test_an_echo_with_a_drain_is_left_to_the_answer_to_the_drain() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=5, drain=True, echo=True))
    assert peer.bodies() == []
    link.answer_drain()
    assert only(Flow, peer.bodies()).drain


@pytest.mark.amqp("2.6.7")
def test_a_grant_replaces_the_credit_and_carries_all_session_fields() -> None:
    peer = Peer(incoming_window=50, outgoing_window=60).opened().begun()
    link = peer.attached()
    link.grant(10)
    assert only(Flow, peer.bodies()) == Flow(
        next_incoming_id=0,
        incoming_window=50,
        next_outgoing_id=1,
        outgoing_window=60,
        handle=0,
        delivery_count=0,
        link_credit=10,
    )
    peer.say(transfer(0))
    peer.say(transfer(1))
    assert link.credit == 8
    link.grant(10)
    sent = only(Flow, peer.bodies())
    assert (sent.delivery_count, sent.link_credit, sent.incoming_window) == (2, 10, 48)


@pytest.mark.amqp("2.6.7")
def test_deliveries_beyond_the_credit_are_taken_and_counted() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.grant(1)
    events = [event for number in range(3) for event in peer.say(transfer(number))]
    assert len(events) == 3
    assert link.credit == -2


@pytest.mark.amqp("2.6.7")
def test_a_drained_sender_moves_our_count_on() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.grant(10, drain=True)
    assert only(Flow, peer.bodies()).drain
    one(FlowReceived, peer.say(flow(handle=0, delivery_count=10, link_credit=0, drain=True)))
    assert link.credit == 0
    one(FlowReceived, peer.say(flow(handle=0)))
    assert link.delivery_count == 10
