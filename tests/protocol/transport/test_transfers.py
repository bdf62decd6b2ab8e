"""Deliveries: whole, in parts, aborted, too large (AMQP 1.0 §2.6.11 to §2.6.14, §2.7.5)."""

from __future__ import annotations

import pytest

from bendybus.amqp.conditions import RESOURCE_LIMIT_EXCEEDED
from bendybus.amqp.events import (
    OversizedTransferReceived,
    SessionFailed,
    TransferReceived,
)
from bendybus.amqp.faults import CannotSend
from bendybus.amqp.performatives import Accepted, Detach, End, TransactionalState, Transfer
from tests.protocol.transport.conversation import Peer, flow, one, transfer

TAG = b"t" * 16
BATCH_FORMAT = 0x80013700


@pytest.mark.amqp("2.7.5")
def test_a_whole_delivery_is_one_event() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    events = peer.say(
        transfer(7, delivery_tag=b"tag", message_format=BATCH_FORMAT, settled=True),
        payload=b"message",
    )
    assert events == [TransferReceived(link, 7, b"tag", BATCH_FORMAT, True, None, b"message")]


@pytest.mark.amqp("4.4.1")
def test_the_state_of_a_transactional_transfer_is_kept() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    event = one(TransferReceived, peer.say(transfer(state=TransactionalState(b"txn"))))
    assert event.state == TransactionalState(b"txn")


@pytest.mark.amqp("2.6.14")
@pytest.mark.parametrize("is_repeated", [True, False], ids=["repeated", "left out"])
def test_a_delivery_in_parts_is_one_event_whether_or_not_its_ids_are_repeated(
    is_repeated: bool,
) -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.grant(10)
    later = transfer(3 if is_repeated else None, more=True)
    assert peer.say(transfer(3, message_format=5, more=True), payload=b"one ") == []
    assert peer.say(later, payload=b"two ") == []
    assert link.credit == 10
    later.more = False
    event = one(TransferReceived, peer.say(later, payload=b"three"))
    assert event.payload == b"one two three"
    assert (event.delivery_id, event.delivery_tag, event.message_format) == (3, b"tag", 5)
    assert link.credit == 9


@pytest.mark.amqp("2.7.5")
def test_a_delivery_is_settled_if_any_of_its_parts_says_so_and_has_the_last_state() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    peer.say(transfer(0, more=True, state=TransactionalState(b"a")))
    peer.say(transfer(None, more=True, settled=True, state=TransactionalState(b"b")))
    event = one(TransferReceived, peer.say(transfer(None)))
    assert (event.settled, event.state) == (True, TransactionalState(b"b"))


@pytest.mark.amqp("2.6.14")
def test_parts_of_deliveries_on_different_links_may_alternate() -> None:
    peer = Peer().opened().begun()
    first, second = peer.attached(handle=0), peer.attached(handle=1)
    peer.say(transfer(0, handle=0, more=True), payload=b"a")
    peer.say(transfer(1, handle=1, more=True), payload=b"b")
    one_event = one(TransferReceived, peer.say(transfer(None, handle=0), payload=b"a"))
    other = one(TransferReceived, peer.say(transfer(None, handle=1), payload=b"b"))
    assert (one_event.link, one_event.payload) == (first, b"aa")
    assert (other.link, other.payload) == (second, b"bb")


@pytest.mark.amqp("2.6.14")
def test_an_aborted_delivery_is_dropped_and_the_next_one_is_whole() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.grant(10)
    peer.say(transfer(0, more=True), payload=b"half")
    assert peer.say(transfer(None, aborted=True, more=True), payload=b"ignored") == []
    assert link.credit == 9
    assert one(TransferReceived, peer.say(transfer(1), payload=b"whole")).payload == b"whole"


@pytest.mark.amqp("2.6.14")
def test_a_delivery_that_begins_before_the_last_is_complete_ends_the_session() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    peer.say(transfer(0, more=True))
    failed = one(SessionFailed, peer.say(transfer(1)))
    assert failed.condition == "amqp:invalid-field"
    assert "delivery 1 began before 0 was complete" in failed.description


@pytest.mark.amqp("2.7.5")
def test_a_delivery_without_an_id_ends_the_session() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    assert one(SessionFailed, peer.say(transfer(None))).condition == "amqp:invalid-field"


def test_a_transfer_to_a_sender_ends_the_session() -> None:
    peer = Peer().opened().begun()
    peer.attached(receiver=True)
    assert one(SessionFailed, peer.say(transfer())).condition == "amqp:not-allowed"


@pytest.mark.amqp("2.7.3")
def test_a_delivery_larger_than_the_links_limit_is_told_without_its_bytes() -> None:
    peer = Peer().opened().begun()
    link = peer.attached()
    link.message_size_max = 10
    assert one(TransferReceived, peer.say(transfer(0), payload=b"x" * 10)).payload == b"x" * 10
    events = peer.say(transfer(1), payload=b"x" * 11)
    assert events == [OversizedTransferReceived(link, 1, b"tag", False, None, 11)]
    peer.say(transfer(2, more=True, settled=True), payload=b"x" * 6)
    assert peer.say(transfer(None, more=True), payload=b"x" * 6) == []
    assert link.assembly is not None
    assert link.assembly.payload == b""
    events = peer.say(transfer(None), payload=b"x")
    assert events == [OversizedTransferReceived(link, 2, b"tag", True, None, 13)]
    one(TransferReceived, peer.say(transfer(3)))


def test_what_is_not_complete_is_bounded_over_all_links_but_one_alone_may_be_large() -> None:
    peer = Peer().opened().begun().begun(1)
    peer.engine.unfinished_bytes_max = 100
    first, second = peer.attached(handle=0), peer.attached(handle=0, channel=1)
    peer.say(transfer(0, more=True), payload=bytes(150))
    peer.say(transfer(None), payload=bytes(150))
    peer.say(transfer(1, more=True), payload=bytes(60))
    peer.say(transfer(0, more=True), payload=bytes(40), channel=1)
    peer.say(transfer(None, aborted=True), channel=1)
    peer.say(transfer(1, more=True), payload=bytes(40), channel=1)
    assert first.session.is_answerable
    failed = one(SessionFailed, peer.say(transfer(None, more=True), payload=b"1", channel=1))
    assert (failed.session, failed.condition) == (second.session, RESOURCE_LIMIT_EXCEEDED)
    assert len(one(TransferReceived, peer.say(transfer(None), payload=bytes(40))).payload) == 100


@pytest.mark.parametrize("ending", [Detach(handle=0, closed=True), End()], ids=["link", "session"])
def test_what_never_will_be_complete_does_not_count(ending: Detach | End) -> None:
    peer = Peer().opened().begun()
    peer.engine.unfinished_bytes_max = 100
    for _ in range(3):
        link = peer.attached()
        peer.say(transfer(0, more=True), payload=bytes(80))
        peer.say(ending)
        link.detach()
        if isinstance(ending, End):
            peer.begun()
        peer.attached(handle=1)
        peer.say(transfer(0, handle=1, more=True), payload=bytes(90))
        assert peer.say(transfer(None, handle=1, aborted=True)) == []
        peer.say(Detach(handle=1, closed=True))


def test_half_a_delivery_is_forgotten_with_its_link() -> None:
    peer = Peer().opened().begun()
    peer.attached()
    peer.say(transfer(0, more=True), payload=b"half")
    peer.say(Detach(handle=0, closed=True))
    peer.attached()
    assert one(TransferReceived, peer.say(transfer(1), payload=b"new")).payload == b"new"


@pytest.mark.amqp("2.7.5")
@pytest.mark.parametrize("settled", [True, False])
def test_a_delivery_goes_out_in_one_frame_with_its_tag_and_is_remembered_unless_settled(
    settled: bool,
) -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=5))
    delivery = link.send(b"message", TAG, settled=settled, parcel="parcel")
    [heard] = peer.heard()
    assert heard.payload == b"message"
    assert heard.body == Transfer(
        handle=0,
        delivery_id=0x40000000,
        delivery_tag=TAG,
        message_format=0,
        settled=settled,
        batchable=True,
    )
    assert (delivery is None) is settled
    if delivery is not None:
        assert (delivery.tag, delivery.link, delivery.parcel) == (TAG, link, "parcel")
        assert link.session.unsettled == {0x40000000: delivery}


@pytest.mark.amqp("2.7.5")
def test_other_formats_tags_and_states_go_out_as_they_were_given() -> None:
    peer = Peer().opened().begun()
    link = peer.attached(receiver=True)
    peer.say(flow(handle=0, link_credit=5))
    link.send(b"1", b"tag", settled=False)
    link.send(b"2", TAG, settled=False, message_format=BATCH_FORMAT)
    link.send(b"3", TAG, settled=False, message_format=1, state=Accepted())
    link.send(b"4", TAG, settled=False, message_format=1)
    sent = [(body.delivery_tag, body.message_format, body.state) for body in peer.bodies()]
    assert sent == [
        (b"tag", 0, None),
        (TAG, BATCH_FORMAT, None),
        (TAG, 1, Accepted()),
        (TAG, 1, None),
    ]


@pytest.mark.amqp("2.7.1")
def test_no_frame_is_larger_than_the_peer_takes_or_than_our_own_limit() -> None:
    for ours, theirs in ((65536, 512), (512, 2**32 - 1)):
        peer = Peer(frame_size_max=ours).opened(max_frame_size=theirs).begun()
        link = peer.attached(receiver=True)
        peer.say(flow(handle=0, link_credit=5))
        link.send(b"x" * 2000, TAG, settled=True)
        frames = peer.heard()
        assert b"".join(heard.payload for heard in frames) == b"x" * 2000
        assert max(len(heard.payload) for heard in frames) < 512


def test_nothing_else_is_sent_on_a_session_while_a_delivery_waits_for_the_window() -> None:
    peer = Peer().opened(max_frame_size=512).begun(incoming_window=1)
    waiting, other = peer.attached(handle=0, receiver=True), peer.attached(handle=1, receiver=True)
    peer.say(flow(handle=0, link_credit=5, incoming_window=1))
    peer.say(flow(handle=1, link_credit=5, incoming_window=1))
    waiting.send(b"x" * 1000, TAG, settled=False)
    assert (waiting.sendable(), other.sendable()) == (0, 0)
    with pytest.raises(CannotSend):
        other.send(b"y", TAG, settled=False)
    peer.heard()
    peer.say(flow(next_incoming_id=2, incoming_window=50))
    assert [heard.payload[:1] for heard in peer.heard()] == [b"x", b"x"]
    assert other.sendable() == 5


def test_frames_that_wait_are_dropped_with_their_link_and_free_the_others() -> None:
    peer = Peer().opened(max_frame_size=512).begun(incoming_window=1)
    waiting, other = peer.attached(handle=0, receiver=True), peer.attached(handle=1, receiver=True)
    peer.say(flow(handle=0, link_credit=5, incoming_window=1))
    peer.say(flow(handle=1, link_credit=5, incoming_window=1))
    waiting.send(b"x" * 1000, TAG, settled=False)
    peer.heard()
    waiting.detach()
    assert [type(body) for body in peer.bodies()] == [Detach]
    assert waiting.session.unsettled == {}
    peer.say(flow(next_incoming_id=2, incoming_window=50))
    assert peer.bodies() == []
    assert other.sendable() == 5
