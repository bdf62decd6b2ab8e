"""Every metric that the broker has: its name, its kind, and what it tells.

docs/observability.md lists them, too.
"""

from dataclasses import dataclass
from typing import Final

from bendybus.store.figures import Event


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A metric. The name of a counter is without its ending `_total`."""

    name: str
    kind: str
    text: str

    @property
    def sample_name(self) -> str:
        """The name that its values have, but for histograms, which have several."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


MESSAGES: Final = Family("bendybus_messages", "gauge", "Messages held, by state")
LOCKED: Final = Family(
    "bendybus_messages_locked", "gauge", "Messages under lock, at most 20000 of a store counted"
)
OLDEST: Final = Family(
    "bendybus_oldest_message_age_seconds",
    "gauge",
    "Age of the oldest message that could be received now",
)
RESERVED: Final = Family(
    "bendybus_messages_reserved", "gauge", "Active messages that a reader keeps for itself"
)
RESERVED_AGE: Final = Family(
    "bendybus_oldest_reservation_age_seconds", "gauge", "Age of a reader's oldest reservation"
)
READER_LAG: Final = Family(
    "bendybus_reader_lag_messages", "gauge", "Active messages that no reader keeps for itself yet"
)
READER_IDLE: Final = Family(
    "bendybus_reader_idle_seconds", "gauge", "Time since a reader was last used, roughly"
)
BYTES: Final = Family("bendybus_fragment_bytes", "gauge", "Bytes that count against the size")
EVENTS: Final = {
    event: Family(f"bendybus_messages_{event}", "counter", text)
    for event, text in {
        Event.ACCEPTED: "Messages stored that clients sent, or that a subscription took",
        Event.FORWARDED: "Messages that came here by forwarding",
        Event.DROPPED: "Messages left out because they had come before",
        Event.DELIVERED: "Messages locked for receivers, or ahead of them, or reserved",
        Event.RETURNED: "Messages given back unread, which does not count as a delivery",
        Event.COMPLETED: "Messages removed by who received or reserved them, or forwarded",
        Event.ABANDONED: "Messages given back by who received them",
        Event.DEFERRED: "Messages set aside by who received them",
        Event.DEAD_LETTERED: "Messages that became dead letters, by reason",
        Event.EXPIRED: "Messages whose time to live ended, dead-lettered or not",
        Event.LAPSED: "Locks that ended before the message was settled",
        Event.REFUSED: "Settlements refused because the lock was lost",
        Event.ACTIVATED: "Scheduled messages whose time came",
        Event.CANCELLED: "Scheduled messages that were cancelled",
        Event.PURGED: "Messages deleted without being received",
        Event.REDRIVEN: "Dead letters put back to be tried again",
    }.items()
} | {
    Event.ACCEPTED_BYTES: Family(
        "bendybus_accepted_bytes", "counter", "Bytes of the contents that were stored"
    )
}
SESSIONS_HELD: Final = Family("bendybus_sessions_held", "gauge", "Sessions that receivers hold")
RECEIVERS_WAITING: Final = Family(
    "bendybus_receivers_waiting", "gauge", "Receivers that wait for a message or a session"
)
STORE_UP: Final = Family("bendybus_store_up", "gauge", "Whether the store is online")
STORE_BYTES: Final = Family(
    "bendybus_store_bytes", "gauge", "Size of the store: of its file, or its database"
)
STORE_LOG_BYTES: Final = Family(
    "bendybus_store_log_bytes", "gauge", "Size of the store's write-ahead log"
)
STORE_FRAGMENTS: Final = Family("bendybus_store_fragments", "gauge", "Fragments in the store")
STORE_WAITING: Final = Family(
    "bendybus_store_waiting_calls", "gauge", "Calls that wait for the store's thread"
)
STORE_STAGED: Final = Family(
    "bendybus_store_staged_bytes", "gauge", "Bytes that writers brought and have not published"
)
STORE_UNFINISHED: Final = Family(
    "bendybus_store_unfinished_batches", "gauge", "Batches of writers that are published in part"
)
STORE_FAILURES: Final = Family(
    "bendybus_store_failures", "counter", "Failures of the store's database"
)
STORE_WRITE_BACKS: Final = Family(
    "bendybus_store_checkpoints", "counter", "Times that the log was written back"
)
COMMIT_SECONDS: Final = Family(
    "bendybus_store_commit_seconds", "histogram", "Time that a commit took, its work included"
)
COMMIT_CALLERS: Final = Family(
    "bendybus_store_commit_callers", "histogram", "Calls that were committed together"
)
CONNECTIONS: Final = Family(
    "bendybus_connections", "gauge", "Connections of clients, by protocol; WebSockets are AMQP"
)
LINKS: Final = Family("bendybus_links", "gauge", "AMQP links of clients")
BLOCKED: Final = Family(
    "bendybus_connections_blocked", "gauge", "AMQP connections whose clients do not read"
)
HTTP_ANSWERS: Final = Family(
    "bendybus_http_requests", "counter", "HTTP requests answered, by method and status"
)
BULK_STREAMS: Final = Family(
    "bendybus_bulk_streams", "gauge", "Streams of messages under way at the bulk door"
)
BULK_ROWS: Final = Family(
    "bendybus_bulk_rows", "counter", "Messages read and written at the bulk door, by direction"
)
BULK_BYTES: Final = Family(
    "bendybus_bulk_bytes", "counter", "Bytes of record batches at the bulk door, by direction"
)
BULK_CALLS: Final = Family(
    "bendybus_bulk_calls", "counter", "Calls at the bulk door that ended, by outcome"
)
CPU: Final = Family("process_cpu_seconds", "counter", "CPU time of the process")
MEMORY: Final = Family("process_resident_memory_bytes", "gauge", "Memory of the process")
FILES: Final = Family("process_open_fds", "gauge", "Open files of the process")
STARTED: Final = Family("process_start_time_seconds", "gauge", "When the broker started")
WORKER_UP: Final = Family(
    "bendybus_worker_up", "gauge", "Whether the worker has answered; only with several"
)
BUILD: Final = Family("bendybus_build_info", "gauge", "Always 1; the labels tell the version")

FAMILIES: Final = (
    *(MESSAGES, LOCKED, OLDEST, BYTES),
    *(RESERVED, RESERVED_AGE, READER_LAG, READER_IDLE),
    *EVENTS.values(),
    *(SESSIONS_HELD, RECEIVERS_WAITING),
    *(STORE_UP, STORE_BYTES, STORE_LOG_BYTES, STORE_FRAGMENTS, STORE_WAITING),
    *(STORE_STAGED, STORE_UNFINISHED),
    *(STORE_FAILURES, STORE_WRITE_BACKS, COMMIT_SECONDS, COMMIT_CALLERS),
    *(CONNECTIONS, LINKS, BLOCKED, HTTP_ANSWERS),
    *(BULK_STREAMS, BULK_ROWS, BULK_BYTES, BULK_CALLS),
    *(CPU, MEMORY, FILES, STARTED, BUILD, WORKER_UP),
)

OF_ONE_WORKER: Final = frozenset(
    {family for family in FAMILIES if family.kind != "gauge"}
    | {SESSIONS_HELD, RECEIVERS_WAITING, STORE_WAITING, CONNECTIONS, LINKS, BLOCKED, BULK_STREAMS}
    | {CPU, MEMORY, FILES, STARTED}
)
"""What each worker counts for itself. All others are of the stores, which workers share."""
