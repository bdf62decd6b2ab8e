"""Attach and Detach (AMQP 1.0 §2.6.1 to §2.6.6)."""

from __future__ import annotations

import pytest

from bendybus.amqp.connection_settings import Role
from bendybus.amqp.events import (
    AttachReceived,
    ConnectionFailed,
    DetachReceived,
    FlowReceived,
    SessionFailed,
    TransferReceived,
)
from bendybus.amqp.faults import CannotSend
from bendybus.amqp.frames import AMQP_HEADER
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    Attach,
    Begin,
    Coordinator,
    Detach,
    Flow,
    Open,
    Source,
    Target,
)
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.amqp.values import Described, Symbol, Ulong
from tests.protocol.transport.conversation import Peer, attach, flow, one, only, transfer

GONE = AmqpError("amqp:not-found", "no such entity")


def client_link(role: LinkRole) -> tuple[Peer, AmqpLink]:
    """Return a client whose link waits for the peer's Attach."""
    peer = Peer(Role.CLIENT, sasl_mechanisms=())
    peer.engine.open()
    link = peer.engine.begin().attach(
        "ours", role, source=Source(address="a"), target=Target(address="b"), rcv_settle_mode=1
    )
    peer.write(AMQP_HEADER)
    begin = Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)
    peer.say(Open(container_id="peer"), begin)
    return peer, link


@pytest.mark.amqp("2.6.3")
def test_an_attach_is_an_event_and_the_answer_mirrors_it() -> None:
    peer = Peer().opened().begun()
    asked = attach(handle=4, name="orders")
    asked.snd_settle_mode, asked.rcv_settle_mode = 0, 1
    event = one(AttachReceived, peer.say(asked))
    link = event.link
    assert (link.name, link.role, link.is_open) == ("orders", LinkRole.RECEIVER, False)
    assert event.attach == asked
    assert peer.bodies() == []
    link.accept_attach(max_message_size=262144, properties={Symbol("k"): "v"})
    assert link.is_open
    assert peer.bodies() == [
        Attach(
            name="orders",
            handle=4,
            role=True,
            snd_settle_mode=0,
            rcv_settle_mode=1,
            source=asked.source,
            target=asked.target,
            max_message_size=262144,
            properties={Symbol("k"): "v"},
        )
    ]
    assert link.message_size_max == 262144


@pytest.mark.amqp("2.7.3")
def test_as_a_sender_our_attach_always_has_an_initial_delivery_count() -> None:
    peer = Peer().opened().begun()
    link = one(AttachReceived, peer.say(attach(receiver=True))).link
    link.accept_attach(source=Source(address="other"), initial_delivery_count=5)
    sent = only(Attach, peer.bodies())
    assert (sent.role, sent.initial_delivery_count) == (False, 5)
    assert sent.source == Source(address="other")
    assert sent.target == Target(address="target")


@pytest.mark.amqp("2.6.3")
def test_a_refusal_is_an_attach_without_terminuses_and_a_detach_in_one_write() -> None:
    peer = Peer().opened().begun()
    link = one(AttachReceived, peer.say(attach(handle=2))).link
    link.refuse(GONE)
    answer, detach = peer.bodies()
    assert (answer.name, answer.source, answer.target) == ("link-2", None, None)
    assert detach == Detach(handle=2, closed=True, error=GONE)
    assert not link.is_open
    assert peer.say(transfer(handle=2), flow(handle=2)) == []
    assert one(DetachReceived, peer.say(Detach(handle=2, closed=True))).link is link
    assert peer.bodies() == []
    one(AttachReceived, peer.say(attach(handle=2)))


@pytest.mark.amqp("2.6.6")
@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_is_answered_by_the_caller_and_frees_the_handle(closed: bool) -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    event = one(DetachReceived, peer.say(Detach(handle=0, closed=closed, error=GONE)))
    assert (event.link, event.closed, event.error) == (link, closed, GONE)
    assert not link.is_open
    link.detach(closed=closed)
    assert peer.bodies() == [Detach(handle=0, closed=closed)]
    link.detach()
    assert peer.bodies() == []
    assert peer.attached().handle == 0


@pytest.mark.amqp("2.6.5")
def test_what_crosses_our_detach_is_dropped_and_the_peers_detach_is_not_answered_again() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.detach(GONE)
    assert peer.bodies() == [Detach(handle=0, closed=True, error=GONE)]
    assert peer.say(transfer(), flow(handle=0, link_credit=5, echo=True)) == []
    one(DetachReceived, peer.say(Detach(handle=0, closed=True)))
    link.detach()
    assert peer.bodies() == []


def test_a_handle_reused_by_the_peer_before_we_detached_gets_another_of_ours() -> None:
    peer = Peer().opened().begun()
    old = peer.attached()
    peer.say(Detach(handle=0, closed=True))
    new = peer.attached()
    assert (old.handle, new.handle) == (0, 1)
    old.detach()
    assert peer.bodies() == [Detach(handle=0, closed=True)]
    assert new.is_open


@pytest.mark.amqp("2.6.3")
def test_a_peer_that_detaches_before_our_answer_gets_an_attach_in_front_of_the_detach() -> None:
    peer = Peer().opened().begun()
    link = one(AttachReceived, peer.say(attach())).link
    one(DetachReceived, peer.say(Detach(handle=0, closed=True)))
    link.detach()
    assert [type(body) for body in peer.bodies()] == [Attach, Detach]
    link.accept_attach()
    link.refuse(GONE)
    assert peer.bodies() == []


@pytest.mark.amqp("2.6.3")
def test_frames_pipelined_behind_an_attach_reach_the_link_before_its_answer() -> None:
    peer = Peer().opened().begun()
    events = peer.say(attach(handle=0), transfer(), attach(handle=1, receiver=True))
    assert [type(event) for event in events] == [AttachReceived, TransferReceived, AttachReceived]
    event = one(FlowReceived, peer.say(flow(handle=1, link_credit=7)))
    assert (event.link.credit, event.link.sendable()) == (7, 0)
    event.link.accept_attach(initial_delivery_count=100)
    assert (event.link.credit, event.link.sendable()) == (7, 7)


@pytest.mark.amqp("2.7.3")
def test_a_handle_in_use_ends_the_session() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    failed = one(SessionFailed, peer.say(attach(handle=0, name="another")))
    assert failed.condition == "amqp:session:handle-in-use"


@pytest.mark.amqp("2.7.2")
def test_a_handle_above_our_maximum_closes_with_a_framing_error() -> None:
    peer = Peer(handle_max=3).opened().begun()
    peer.attached(handle=3)
    failed = one(ConnectionFailed, peer.say(attach(handle=4)))
    assert failed.condition == "amqp:connection:framing-error"


@pytest.mark.amqp("2.6.6")
@pytest.mark.parametrize("body", [flow(handle=0), Detach(handle=0), transfer()])
def test_a_handle_that_was_detached_is_attached_no_more(body: Flow) -> None:
    peer = Peer().opened().begun()
    peer.attached()
    peer.say(transfer())
    peer.say(Detach(handle=0, closed=True))
    failed = one(SessionFailed, peer.say(body, payload=b"a payload"))
    assert failed.condition == "amqp:session:unattached-handle"


@pytest.mark.parametrize("body", [flow(handle=6), Detach(handle=6), transfer(handle=6)])
def test_a_handle_that_is_not_attached_ends_the_session(body: Flow) -> None:
    peer = Peer().opened().begun()
    failed = one(SessionFailed, peer.say(body))
    assert failed.condition == "amqp:session:unattached-handle"


def test_links_past_the_limit_are_refused_one_by_one_and_the_rest_live_on() -> None:
    peer = Peer(link_count_max=2).opened().begun()
    first, second = peer.attached(handle=0), peer.attached(handle=1)
    assert peer.say(attach(handle=2)) == []
    answer, detach = peer.bodies()
    assert (answer.source, answer.target) == (None, None)
    assert detach.error == AmqpError(
        "amqp:resource-limit-exceeded", "a connection has at most 2 links"
    )
    assert peer.say(Detach(handle=2, closed=True)) == []
    assert first.is_open
    second.detach()
    peer.say(Detach(handle=1, closed=True))
    one(AttachReceived, peer.say(attach(handle=2)))


def test_a_peer_that_leaves_refusals_unanswered_loses_the_connection() -> None:
    peer = Peer(link_count_max=2).opened().begun()
    for handle in range(4):
        assert not any(isinstance(e, ConnectionFailed) for e in peer.say(attach(handle=handle)))
    failed = one(ConnectionFailed, peer.say(attach(handle=4)))
    assert failed.condition == "amqp:resource-limit-exceeded"


def test_the_limit_counts_links_of_all_sessions_and_forgets_those_that_ended() -> None:
    peer = Peer(link_count_max=1).opened().begun(channel=0).begun(channel=1)
    link = peer.attached(channel=0)
    assert peer.say(attach(), channel=1) == []
    peer.heard()
    link.session.end()
    one(AttachReceived, peer.say(attach(handle=1), channel=1))


@pytest.mark.amqp("4.2")
def test_a_coordinator_is_a_target_and_is_echoed() -> None:
    peer = Peer().opened().begun()
    asked = attach()
    asked.target = Coordinator((Symbol("amqp:local-transactions"),))
    link = one(AttachReceived, peer.say(asked)).link
    link.accept_attach()
    assert only(Attach, peer.bodies()).target == asked.target


def test_an_unknown_terminus_is_kept_as_it_came() -> None:
    peer = Peer().opened().begun()
    asked = attach()
    asked.target = Described(Ulong(0x468C00000004), [Symbol("x")])
    assert one(AttachReceived, peer.say(asked)).attach.target == asked.target


@pytest.mark.amqp("2.6.3")
@pytest.mark.parametrize("role", LinkRole)
def test_a_client_asks_for_a_link_and_the_answer_completes_it(role: LinkRole) -> None:
    peer, link = client_link(role)
    sent = only(Attach, peer.bodies())
    assert (sent.name, sent.role) == ("ours", role.value)
    assert (sent.snd_settle_mode, sent.rcv_settle_mode) == (2, 1)
    assert (sent.initial_delivery_count == 0) is (role is LinkRole.SENDER)
    answer = attach(handle=9, receiver=not role.value, name="ours")
    assert one(AttachReceived, peer.say(answer)).link is link
    assert link.is_open
    assert link.peer_attach == answer


def test_a_client_may_detach_before_its_attach_is_answered() -> None:
    peer, link = client_link(LinkRole.SENDER)
    link.detach()
    assert peer.bodies()[-1] == Detach(handle=0, closed=True)
    events = peer.say(attach(receiver=True, name="ours"), Detach(handle=0, closed=True))
    assert [type(event) for event in events] == [AttachReceived, DetachReceived]
    assert peer.bodies() == []


def test_calls_on_a_link_that_is_gone_do_nothing_but_a_send_is_refused() -> None:
    peer = Peer().opened().begun()
    receiver = peer.attached(handle=0)
    sender = peer.attached(handle=1, receiver=True)
    peer.say(flow(handle=1, link_credit=5))
    delivery = sender.send(b"x", b"t" * 16, settled=False)
    assert delivery is not None
    peer.heard()
    receiver.session.end()
    peer.heard()
    receiver.grant(5)
    receiver.settle(0, 0, Accepted())
    receiver.detach()
    sender.settle_sent([delivery], Accepted())
    sender.answer_drain()
    with pytest.raises(CannotSend):
        sender.send(b"x", b"t" * 16, settled=False)
    assert peer.bodies() == []


def test_a_link_and_a_delivery_say_what_they_are() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=1))
    delivery = link.send(b"x", b"\x01" * 16, settled=False, parcel="p")
    assert repr(link) == "AmqpLink('link-0', SENDER, ATTACHED)"
    assert repr(delivery) == f"OutgoingDelivery(0x40000000, {'01' * 16}, 'p')"
