"""Who is put out: clients that keep a stream waiting, and those who come and ask for nothing."""

import logging
from collections.abc import Set as AbstractSet
from typing import Final

from bendybus.flight.calls import Call, Calls
from bendybus.flight.peers import Peer, cut_off, peers_at

IDLE_SECONDS_MAX: Final = 300.0
"""A client that neither takes what it asked for nor sends more for so long is cut off."""
STRANGER_SECONDS_MAX: Final = 30.0
"""Who connects shows a good token within this time."""

_log = logging.getLogger(__name__)


class Doorkeeper:
    """Looks after the connections of the bulk door, which gRPC would keep for ever."""

    def __init__(
        self,
        calls: Calls,
        idle_seconds_max: float = IDLE_SECONDS_MAX,
        stranger_seconds_max: float = STRANGER_SECONDS_MAX,
    ) -> None:
        self._calls = calls
        self._idle_seconds_max = idle_seconds_max
        self._stranger_seconds_max = stranger_seconds_max
        # Connections that nobody has shown a good token on, and since when.
        self._strangers: dict[Peer, float] = {}

    def look(self, ports: AbstractSet[int]) -> None:
        """Put out who has had enough time. Takes a while where there are many connections."""
        known = set(self._calls.known_peers)
        connected = peers_at(ports)
        now = self._calls.now()
        # Of those that were known before: others may have come since.
        self._calls.known_peers -= known - connected
        self._strangers = {
            peer: self._strangers.get(peer, now)
            for peer in connected
            if peer not in self._calls.known_peers
        }
        late = {
            peer
            for peer, since in self._strangers.items()
            if now - since > self._stranger_seconds_max
        }
        late |= {peer for call in self._calls.under_way() for peer in self._late(call, now)}
        if late:
            _log.info("cut off for want of progress: %s", sorted(late))
            cut_off(ports, late)

    def _late(self, call: Call, now: float) -> AbstractSet[Peer]:
        since = call.waits_since
        if call.peer is None or since is None or now - since <= self._idle_seconds_max:
            return frozenset()
        return {call.peer}
