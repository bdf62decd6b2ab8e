"""Runs spoiled conversations against the engine and checks what must hold for any bytes.

1. Nothing is raised.
2. After a failure or a Close nothing more is told.
3. What the engine says is well-formed, and nothing follows its Close.
4. Memory stays in proportion: at most a frame is buffered, and output is bounded by input.
5. How the stream was cut into reads changes nothing.

A stream that makes the engine behave in a way not seen before is kept and spoiled further.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    Event,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    SessionFailed,
    TransferReceived,
)
from bendybus.amqp.frames import FRAME_HEADER
from bendybus.amqp.performatives import (
    Accepted,
    AmqpError,
    decode_performative,
    decode_sasl_body,
)
from bendybus.amqp.session import AmqpLink, LinkRole
from tests.fuzz.grammar import conversation, spoil
from tests.protocol.transport.retelling import retell

CORPUS = Path(__file__).parent / "corpus"
CORPUS_FILE_SIZE_MAX = 8192
SETTINGS = ConnectionSettings(
    container_id="fuzzed",
    frame_size_max=4096,
    channel_max=3,
    handle_max=7,
    incoming_window=10,
    message_size_max=500,
    link_count_max=5,
    paused_bytes_max=1000,
)
PARTICULARS = r"0x\w+|\d+|b?['\"].*|(?<=field )\w+|(?<=is a )\w+|(?<=mandatory )field \w+"
"""What makes one failure's text differ from another's of the same kind."""
OUTPUT_PER_INPUT_MAX = 60
OUTPUT_MAX = 20_000
"""A message or an echo may answer a frame of a dozen bytes; this is many times what that needs."""


class Subject:
    """An engine with a small caller on it: a busy one does something with every event.

    An idle one lets everybody in and does nothing else, so that what it is told does not depend on
    when it acted.
    """

    def __init__(self, *, is_busy: bool = True) -> None:
        self.is_busy = is_busy
        self.engine = AmqpConnection(SETTINGS)
        self.told: list[Event] = []
        self.said = b""

    def take(self, data: bytes) -> None:
        """Feed one read and act on what it tells."""
        events = self.engine.receive_data(data)
        while events:
            assert not self._is_over(), f"told after the end: {events}"
            self.told += events
            events = [follow for event in events for follow in self._act(event)]
        self.said += self.engine.data_to_send()
        assert len(self.engine._pending) <= max(
            SETTINGS.frame_size_max, SETTINGS.paused_bytes_max + len(data)
        )

    def _is_over(self) -> bool:
        return bool(self.told) and isinstance(self.told[-1], ConnectionFailed | CloseReceived)

    def _act(self, event: Event) -> list[Event]:  # noqa: C901, PLR0912  one case per event
        match event:
            case SaslInitReceived() if not self.is_busy:
                return self.engine.sasl_outcome(True)
            case _ if not self.is_busy:
                pass
            case SaslInitReceived():
                return self.engine.sasl_outcome(event.mechanism != "MSSBCBS")
            case OpenReceived():
                self.engine.open()
            case AttachReceived(link=link) if link.name.startswith("accept"):
                link.accept_attach(max_message_size=500)
                if link.role is LinkRole.RECEIVER:
                    link.grant(3)
            case AttachReceived(link=link) if link.name.startswith("refuse"):
                link.refuse(AmqpError("amqp:not-found", "no"))
            case FlowReceived(link=link):
                self._send(link)
            case TransferReceived(link=link) if not event.settled:
                link.settle(event.delivery_id, event.delivery_id, Accepted())
                if len(event.payload) > 100:
                    link.detach(AmqpError("amqp:internal-error"))
            case DispositionReceived(link=link) if not event.settled:
                link.settle_sent(event.deliveries, event.state)
            case DetachReceived(link=link):
                link.detach()
            case CloseReceived():
                self.engine.close()
            case _:
                pass
        return []

    def _send(self, link: AmqpLink) -> None:
        for _ in range(min(2, link.sendable())):
            if link.sendable():
                link.send(b"x" * 900, b"t" * 16, settled=False)
        if link.drain:
            link.answer_drain()


def check(data: bytes, rng: Random) -> set[str]:
    """Feed a stream whole and cut; return the features of what it did. Raises on any surprise.

    Features are events with the one before them, frames said, and the ways to fail.
    """
    whole = Subject()
    whole.take(data)
    assert len(whole.said) <= OUTPUT_MAX + OUTPUT_PER_INPUT_MAX * len(data)
    words = _check_said(whole.said)
    _check_cuts(data, rng)
    kinds = ["", *(type(event).__name__ for event in whole.told)]
    features = {f"{before} {after}" for before, after in pairwise(kinds)} | set(words)
    for event in whole.told:
        if isinstance(event, ConnectionFailed | SessionFailed):
            features.add(re.sub(PARTICULARS, "#", event.description))
    return features


def _check_cuts(data: bytes, rng: Random) -> None:
    whole, cut = Subject(is_busy=False), Subject(is_busy=False)
    whole.take(data)
    pos = 0
    while pos < len(data):
        size = rng.choice((1, 3, 8, 20, 100, 1000))
        cut.take(data[pos : pos + size])
        pos += size
    assert _outline(cut) == _outline(whole), "the cut of the stream changed what was told"


def _outline(subject: Subject) -> list[str]:
    """Tell events by what does not depend on how much else was read when they were told."""
    return [
        f"{line[0]} {line[1]}" if line[0] == "ConnectionFailed" else f"{line[0]} {line[2:]}"
        for line in retell(subject.told)
    ]


def _check_said(data: bytes) -> list[str]:
    """Check that output is headers and frames, nothing behind a Close; return the kinds."""
    pos, kinds = 0, []
    while pos < len(data):
        assert "Close" not in kinds, "something was said after Close"
        if data.startswith(b"AMQP", pos):
            pos += 8
            continue
        size, doff, kind, _ = FRAME_HEADER.unpack_from(data, pos)
        assert doff == 2
        assert pos + size <= len(data)
        body = data[pos + 8 : pos + size]
        said = decode_sasl_body(body, 0) if kind else decode_performative(body, 0)[0]
        kinds.append(type(said).__name__)
        pos += size
    return sorted(set(kinds))


def read_corpus() -> list[bytes]:
    """Return the streams that were kept."""
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.bin"))]


def keep(data: bytes, prefix: str = "") -> Path:
    """Write a stream into the corpus."""
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{prefix}{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def streams(rng: Random, pool: list[bytes]) -> Iterator[bytes]:
    """Yield streams without end: fresh, spoiled once or more, or spoiled from the pool."""
    while True:
        data = rng.choice(pool) if pool and rng.random() < 0.6 else conversation(rng)
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            data = spoil(rng, data or b"\0", rng.choice(pool) if pool else conversation(rng))
        yield data[:CORPUS_FILE_SIZE_MAX]


def run(seed: int, rounds: Iterable[int]) -> Iterator[tuple[bytes, set[str]]]:
    """Check one stream per round; yield those that did something new, and what."""
    rng = Random(seed)
    pool = read_corpus()
    seen = {feature for data in pool for feature in check(data, rng)}
    for _, data in zip(rounds, streams(rng, pool), strict=False):
        try:
            features = check(data, rng)
        except Exception as error:
            path = keep(data, "failure-")
            error.add_note(f"seed {seed}; the stream is kept in {path.name}")
            raise
        if not features <= seen:
            yield data, features - seen
            seen |= features
            pool.append(data)
