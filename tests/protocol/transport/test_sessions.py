"""Begin, End and the windows of a session (AMQP 1.0 §2.5)."""

from __future__ import annotations

import pytest

from bendybus.amqp.connection_settings import Role
from bendybus.amqp.events import (
    AttachReceived,
    BeginReceived,
    ConnectionFailed,
    EndReceived,
    SessionFailed,
    SessionFlowReceived,
)
from bendybus.amqp.faults import IllegalTransition
from bendybus.amqp.frames import AMQP_HEADER
from bendybus.amqp.performatives import AmqpError, Attach, Begin, Detach, End, Flow, Open, Transfer
from bendybus.amqp.session import LinkRole
from tests.protocol.transport.conversation import Peer, attach, flow, one, only, transfer

BEGIN = Begin(next_outgoing_id=7, incoming_window=3, outgoing_window=9)


@pytest.mark.amqp("2.5.1")
def test_a_begin_is_answered_on_a_channel_of_ours_naming_theirs() -> None:
    peer = Peer(incoming_window=50, outgoing_window=60, handle_max=70).opened()
    event = one(BeginReceived, peer.say(BEGIN, channel=5))
    [heard] = peer.heard()
    assert heard.channel == 5
    assert heard.body == Begin(
        remote_channel=5,
        next_outgoing_id=1,
        incoming_window=50,
        outgoing_window=60,
        handle_max=70,
    )
    assert event.session.channel == 5


@pytest.mark.amqp("2.5.2")
def test_an_end_is_answered_and_its_channel_can_begin_again() -> None:
    peer = Peer().opened().begun(channel=3)
    link = peer.attached(channel=3)
    error = AmqpError("amqp:internal-error")
    event = one(EndReceived, peer.say(End(error), channel=3))
    assert event.error == error
    assert event.session is link.session
    assert not link.is_open
    assert [(heard.channel, heard.body) for heard in peer.heard()] == [(3, End())]
    one(BeginReceived, peer.say(BEGIN, channel=3))


@pytest.mark.amqp("2.5.3")
def test_what_crosses_our_end_is_dropped_until_the_peers_end() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.session.end(AmqpError("amqp:internal-error"))
    link.session.end()
    assert peer.bodies() == [End(AmqpError("amqp:internal-error"))]
    assert peer.say(transfer(), attach(handle=9), flow()) == []
    assert one(EndReceived, peer.say(End())).session is link.session
    assert peer.bodies() == []


@pytest.mark.amqp("2.5.4")
def test_a_session_that_the_peer_broke_is_ended_with_the_error_and_its_end_taken_silently() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    failed = one(SessionFailed, peer.say(transfer(handle=9)))
    assert failed.session is link.session
    assert failed.condition == "amqp:session:unattached-handle"
    error = only(End, peer.bodies()).error
    assert error == AmqpError(failed.condition, "handle 9 is not attached")
    assert not link.is_open
    assert peer.say(transfer(handle=9)) == []
    assert peer.say(End()) == []
    one(BeginReceived, peer.say(BEGIN))


@pytest.mark.amqp("2.5")
@pytest.mark.parametrize("body", [attach(), flow(), transfer(), Detach(handle=0), End()])
def test_a_frame_on_a_channel_without_a_session_closes_the_connection(body: Attach) -> None:
    peer = Peer().opened()
    assert one(ConnectionFailed, peer.say(body, channel=4)).condition == "amqp:illegal-state"


@pytest.mark.amqp("2.5.1")
def test_a_second_begin_on_a_channel_closes_the_connection() -> None:
    peer = Peer().opened().begun()
    assert one(ConnectionFailed, peer.say(BEGIN)).condition == "amqp:illegal-state"


@pytest.mark.amqp("2.7.1")
def test_a_channel_above_our_maximum_closes_with_a_framing_error() -> None:
    peer = Peer(channel_max=10).opened().begun(channel=10)
    failed = one(ConnectionFailed, peer.say(BEGIN, channel=11))
    assert failed.condition == "amqp:connection:framing-error"


@pytest.mark.amqp("2.5.1")
def test_a_client_begins_and_the_answer_may_use_another_channel() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.engine.open()
    first, second = peer.engine.begin(), peer.engine.begin()
    assert (first.channel, second.channel) == (0, 1)
    peer.write(AMQP_HEADER)
    assert [type(body) for body in peer.bodies()] == [Open, Begin, Begin]
    peer.say(Open(container_id="peer"))
    answer = Begin(remote_channel=1, next_outgoing_id=0, incoming_window=5, outgoing_window=5)
    assert one(BeginReceived, peer.say(answer, channel=8)).session is second
    second.end()
    assert [heard.channel for heard in peer.heard()] == [1]
    assert one(EndReceived, peer.say(End(), channel=8)).session is second


def test_a_client_may_end_a_session_before_its_begin_is_answered() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.engine.open()
    session = peer.engine.begin()
    session.end()
    peer.write(AMQP_HEADER)
    assert [type(body) for body in peer.bodies()] == [Open, Begin, End]
    answer = Begin(remote_channel=0, next_outgoing_id=0, incoming_window=5, outgoing_window=5)
    events = peer.say(Open(container_id="peer"), answer, End())
    assert [type(event) for event in events[1:]] == [BeginReceived, EndReceived]


def test_a_begin_that_answers_nothing_closes_the_connection() -> None:
    peer = Peer().opened()
    answer = Begin(remote_channel=6, next_outgoing_id=0, incoming_window=5, outgoing_window=5)
    failed = one(ConnectionFailed, peer.say(answer))
    assert "which we did not begin" in failed.description


def test_a_client_takes_a_session_that_the_peer_begins_on_a_channel_of_its_own() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.engine.open()
    ours = peer.engine.begin()
    peer.write(AMQP_HEADER)
    peer.heard()
    events = peer.say(Open(container_id="peer"), BEGIN)
    theirs = one(BeginReceived, events[1:]).session
    assert theirs is not ours
    assert [(heard.channel, type(heard.body)) for heard in peer.heard()] == [(1, Begin)]


@pytest.mark.amqp("2.5.6")
def test_the_peers_window_is_opened_again_before_half_of_it_is_used() -> None:
    peer = Peer(incoming_window=10).opened().begun()
    peer.attached()
    for delivery_id in range(4):
        peer.say(transfer(delivery_id))
    assert peer.bodies() == []
    peer.say(transfer(4))
    sent = only(Flow, peer.bodies())
    assert (sent.next_incoming_id, sent.incoming_window, sent.handle) == (5, 10, None)


@pytest.mark.amqp("2.5.6")
def test_the_window_counts_every_frame_of_a_delivery() -> None:
    peer = Peer(incoming_window=4).opened().begun()
    peer.attached()
    peer.say(transfer(0, more=True))
    assert peer.bodies() == []
    peer.say(transfer(None))
    assert only(Flow, peer.bodies()).next_incoming_id == 2


@pytest.mark.amqp("2.5.6")
def test_a_window_of_one_frame_is_opened_again_after_each() -> None:
    peer = Peer(incoming_window=1).opened().begun()
    peer.attached()
    for delivery_id in range(3):
        peer.say(transfer(delivery_id))
        assert only(Flow, peer.bodies()).incoming_window == 1


@pytest.mark.amqp("2.5.6")
def test_frames_beyond_the_window_are_taken() -> None:
    peer = Peer(incoming_window=2).opened().begun()
    peer.attached()
    events = [event for number in range(9) for event in peer.say(transfer(number))]
    assert len(events) == 9


@pytest.mark.amqp("2.5.6")
def test_the_peers_own_count_of_its_frames_rules_and_may_call_for_a_new_window() -> None:
    peer = Peer(incoming_window=10).opened().begun()
    one(SessionFlowReceived, peer.say(flow(next_outgoing_id=4)))
    assert peer.bodies() == []
    peer.say(flow(next_outgoing_id=5))
    sent = only(Flow, peer.bodies())
    assert (sent.next_incoming_id, sent.incoming_window) == (5, 10)


@pytest.mark.amqp("2.5.6")
def test_we_send_no_more_frames_than_the_peers_window_and_the_rest_when_it_opens() -> None:
    peer = Peer().opened(max_frame_size=512).begun(incoming_window=2)
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=9, incoming_window=2))
    link.send(b"x" * 1500, b"t" * 16, settled=True)
    assert [type(body) for body in peer.bodies()] == [Transfer, Transfer]
    assert link.sendable() == 0
    one(SessionFlowReceived, peer.say(flow(next_incoming_id=3, incoming_window=1)))
    assert [body.more for body in peer.bodies()] == [True]
    peer.say(flow(next_incoming_id=4, incoming_window=5))
    assert [body.more for body in peer.bodies()] == [False]
    assert link.sendable() == 4


@pytest.mark.amqp("2.5.6")
def test_a_window_is_counted_from_the_first_id_when_the_peer_has_not_seen_our_begin() -> None:
    peer = Peer().opened().begun(incoming_window=0)
    link = peer.attached(receiver=True)
    peer.say(flow(next_incoming_id=None, incoming_window=4, handle=0, link_credit=9))
    assert link.sendable() == 4


@pytest.mark.amqp("2.5.6")
def test_next_outgoing_id_counts_frames_and_not_deliveries() -> None:
    peer = Peer().opened(max_frame_size=512).begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=9))
    link.send(b"x" * 1200, b"t" * 16, settled=True)
    link.send(b"x", b"t" * 16, settled=True)
    link.send(b"x", b"short", settled=True)
    sent = [body for body in peer.bodies() if isinstance(body, Transfer)]
    assert len(sent) == 5
    ids = [body.delivery_id for body in sent if body.delivery_id is not None]
    assert ids == [0x40000000, 0x40000001, 0x40000002]
    peer.say(flow(echo=True))
    assert only(Flow, peer.bodies()).next_outgoing_id == 6


@pytest.mark.amqp("2.7.4")
def test_an_echo_is_answered_with_a_flow_of_the_session() -> None:
    peer = Peer(incoming_window=20, outgoing_window=30).opened().begun()
    peer.say(flow(echo=True))
    assert only(Flow, peer.bodies()) == Flow(
        next_incoming_id=0, incoming_window=20, next_outgoing_id=1, outgoing_window=30
    )


def test_a_client_flows_before_the_peers_begin_without_an_incoming_id() -> None:
    peer = Peer(Role.CLIENT, sasl_mechanisms=(), incoming_window=20)
    peer.engine.open()
    session = peer.engine.begin()
    session.window.send_flow()
    peer.write(AMQP_HEADER)
    sent = only(Flow, peer.bodies())
    assert (sent.next_incoming_id, sent.incoming_window) == (None, 20)


def test_the_state_of_a_session_cannot_be_forced() -> None:
    peer = Peer().opened().begun()
    session = peer.attached().session
    with pytest.raises(IllegalTransition):
        session.send_begin()


def test_links_of_one_session_do_not_hear_of_anothers_end() -> None:
    peer = Peer().opened().begun(channel=0).begun(channel=1)
    first, second = peer.attached(channel=0), peer.attached(channel=1)
    peer.say(End(), channel=0)
    assert (first.is_open, second.is_open) == (False, True)
    one(AttachReceived, peer.say(attach(handle=1), channel=1))


def test_closing_the_connection_ends_every_session_and_link() -> None:
    peer = Peer().opened().begun(channel=0).begun(channel=1)
    links = [peer.attached(channel=0), peer.attached(channel=1, receiver=True)]
    assert [link.role for link in links] == [LinkRole.RECEIVER, LinkRole.SENDER]
    peer.engine.close()
    assert not any(link.is_open for link in links)
