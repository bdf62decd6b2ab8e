"""Figures as they were read, one per round, and the median that is reported of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from bench.processes import CpuShares


class Figure(StrEnum):
    """What can be read off a broker. The value is the name in tables and in the history."""

    SEND = "send"
    RECEIVE = "receive"
    BACK_AFTER_RECEIVE = "back in the queue after receive"
    SEND_AT_ONCE = "send while receiving"
    RECEIVE_AT_ONCE = "receive while sending"
    ACKNOWLEDGE_P50 = "time to acknowledgement p50"
    ACKNOWLEDGE_P99 = "time to acknowledgement p99"
    PACED_RATE = "rate of the latency run"
    EMPTY_SEND = "send, empty queue"
    EMPTY_RECEIVE = "receive, empty queue"
    BACKLOG_SEND = "send onto the backlog"
    BACKLOG_RECEIVE = "receive from the backlog"
    RESIDENT_EMPTY = "resident memory, empty"
    RESIDENT_BACKLOG = "resident memory, backlog"
    RESIDENT_RESTARTED = "resident memory, backlog, restarted"
    RESTART_STOPPED = "restart to first delivery, stopped"
    RESTART_KILLED = "restart to first delivery, killed"
    CONNECTION_RESIDENT = "resident memory per idle connection"
    TOPIC_SEND = "send, topic with subscriptions"
    NO_TOPIC_SEND = "send, queue beside the topic"
    TOPIC_STORED = "stored, topic with subscriptions"
    NO_TOPIC_STORED = "stored, queue beside the topic"
    SESSIONS_RECEIVE = "receive in sessions"
    NO_SESSIONS_RECEIVE = "receive without sessions"
    ACCEPT_FEW = "accept the next of few sessions, p50"
    ACCEPT_MANY = "accept the next of many sessions, p50"
    DUPLICATES_SEND = "send, duplicate detection"
    NO_DUPLICATES_SEND = "send, no duplicate detection"
    SQL_FILTER = "evaluate a SQL filter"
    CORRELATIONS_FEW_SEND = "send, few correlation filters"
    CORRELATIONS_MANY_SEND = "send, many correlation filters"
    BESIDE_NOTHING_P99 = "acknowledgement p99, nothing due"
    BESIDE_SCHEDULES_P99 = "acknowledgement p99, schedules due"
    BESIDE_LOCKS_P99 = "acknowledgement p99, locks ending"
    REST_SEND = "send over HTTP"
    REST_RECEIVE = "receive over HTTP"
    MANAGEMENT_GET = "get an entity over HTTP"
    REDRIVE = "redrive dead letters"
    PARQUET_READ = "Spark reads Parquet, all columns"
    SPARK_READ = "Spark reads the queue, all columns"
    PARQUET_READ_BODY = "Spark reads Parquet, body"
    SPARK_READ_BODY = "Spark reads the queue, body"
    SPARK_READ_SENT = "Spark reads what clients sent, all columns"
    SPARK_READ_SENT_BODY = "Spark reads what clients sent, body"
    SPARK_READ_RESIDENT = "memory grown while Spark reads"
    PARQUET_WRITE = "Spark writes Parquet"
    SPARK_WRITE = "Spark writes to the queue"
    PARQUET_STREAM = "stream from Parquet to Parquet"
    SPARK_CAPTURE = "capture from the queue to Parquet"
    SPARK_CAPTURE_SENT = "capture of what clients sent to Parquet"
    SPARK_CAPTURE_P50 = "from send to table p50"
    ALONE_SEND = "send, nothing beside"
    BESIDE_CAPTURE_SEND = "send during a capture"
    SPARK_REPLAY = "replay in the order of keys"
    REPLAY_WRITE = "Spark writes to the queue, beside replay"
    PLAIN_INSERT = "plain batched INSERT"
    PLAIN_VALUES = "plain INSERT of many VALUES"
    STORE_SEND = "send to the store"
    STORE_RECEIVE = "receive and settle from the store"
    FRONT_END_SEND_CPU = "processor time of the front end, per message sent"
    SERVER_SEND_CPU = "processor time of the server, per message sent"
    FRONT_END_RECEIVE_CPU = "processor time of the front end, per message received"
    SERVER_RECEIVE_CPU = "processor time of the server, per message received"
    ONE_WORKER_SEND = "send by two clients, one worker"
    ONE_WORKER_RECEIVE = "receive by two clients, one worker"
    TWO_WORKERS_SEND = "send by two clients, two workers"
    TWO_WORKERS_RECEIVE = "receive by two clients, two workers"
    ONE_WORKER_SEND_CPU = "processor time of the machine, per message sent, one worker"
    ONE_WORKER_RECEIVE_CPU = "processor time of the machine, per message received, one worker"
    TWO_WORKERS_SEND_CPU = "processor time of the machine, per message sent, two workers"
    TWO_WORKERS_RECEIVE_CPU = "processor time of the machine, per message received, two workers"
    ONE_WORKER_LIGHT_SEND = "send by two light clients, one worker"
    ONE_WORKER_LIGHT_RECEIVE = "receive by two light clients, one worker"
    TWO_WORKERS_LIGHT_SEND = "send by two light clients, two workers"
    TWO_WORKERS_LIGHT_RECEIVE = "receive by two light clients, two workers"
    ONE_WORKER_LIGHT_SEND_CPU = "processor time, per message sent by light clients, one worker"
    ONE_WORKER_LIGHT_RECEIVE_CPU = (
        "processor time, per message received by light clients, one worker"
    )
    TWO_WORKERS_LIGHT_SEND_CPU = "processor time, per message sent by light clients, two workers"
    TWO_WORKERS_LIGHT_RECEIVE_CPU = (
        "processor time, per message received by light clients, two workers"
    )
    VAIN_ACQUIRES = "acquires in vain, three front ends on two stores"
    FRONT_ENDS_RECEIVE = "receive and settle, three front ends on two stores"


UNITS = {
    Figure.BACK_AFTER_RECEIVE: "messages",
    Figure.ACKNOWLEDGE_P50: "ms",
    Figure.ACKNOWLEDGE_P99: "ms",
    Figure.RESIDENT_EMPTY: "MB",
    Figure.RESIDENT_BACKLOG: "MB",
    Figure.RESIDENT_RESTARTED: "MB",
    Figure.RESTART_STOPPED: "s",
    Figure.RESTART_KILLED: "s",
    Figure.CONNECTION_RESIDENT: "KB",
    Figure.TOPIC_STORED: "MB",
    Figure.NO_TOPIC_STORED: "MB",
    Figure.ACCEPT_FEW: "ms",
    Figure.ACCEPT_MANY: "ms",
    Figure.BESIDE_NOTHING_P99: "ms",
    Figure.BESIDE_SCHEDULES_P99: "ms",
    Figure.BESIDE_LOCKS_P99: "ms",
    Figure.SPARK_CAPTURE_P50: "ms",
    Figure.SPARK_READ_RESIDENT: "MB",
    Figure.VAIN_ACQUIRES: "%",
    Figure.FRONT_END_SEND_CPU: "µs",
    Figure.SERVER_SEND_CPU: "µs",
    Figure.FRONT_END_RECEIVE_CPU: "µs",
    Figure.SERVER_RECEIVE_CPU: "µs",
    Figure.ONE_WORKER_SEND_CPU: "µs",
    Figure.ONE_WORKER_RECEIVE_CPU: "µs",
    Figure.TWO_WORKERS_SEND_CPU: "µs",
    Figure.TWO_WORKERS_RECEIVE_CPU: "µs",
    Figure.ONE_WORKER_LIGHT_SEND_CPU: "µs",
    Figure.ONE_WORKER_LIGHT_RECEIVE_CPU: "µs",
    Figure.TWO_WORKERS_LIGHT_SEND_CPU: "µs",
    Figure.TWO_WORKERS_LIGHT_RECEIVE_CPU: "µs",
}
RATE_UNIT = "/s"


def unit_of(figure: Figure) -> str:
    """The unit that a figure's values are in; rates unless it says otherwise."""
    return UNITS.get(figure, RATE_UNIT)


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What a value is of: a figure, of a queue of a system, with bodies of a size."""

    figure: Figure
    target: str
    body_bytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One value from one round, with the cores that were busy meanwhile where that is of use."""

    subject: Subject
    value: float
    cpu: CpuShares | None = None


class Readings:
    """All readings of a run, asked for by subject."""

    def __init__(self) -> None:
        self._by_subject: dict[Subject, list[Reading]] = {}

    def add(self, readings: Iterable[Reading]) -> None:
        """Keep the readings of one round."""
        for reading in readings:
            self._by_subject.setdefault(reading.subject, []).append(reading)

    def subjects(self) -> list[Subject]:
        """Everything that was read, in the order in which it was first read."""
        return list(self._by_subject)

    def of(self, subject: Subject) -> list[Reading]:
        """Every reading of one subject, in the order of the rounds."""
        return self._by_subject.get(subject, [])

    def median(self, figure: Figure, target: str, body_bytes: int) -> float | None:
        """The median over the rounds, or nothing if it was not read."""
        readings = self.of(Subject(figure, target, body_bytes))
        return median(reading.value for reading in readings) if readings else None

    def median_cpu(self, subject: Subject) -> CpuShares | None:
        """The median cores of broker and clients, or nothing if they were not read."""
        shares = [reading.cpu for reading in self.of(subject) if reading.cpu is not None]
        if not shares:
            return None
        return CpuShares(
            broker_cores=median(share.broker_cores for share in shares),
            client_cores=median(share.client_cores for share in shares),
        )

    def best(self, figure: Figure, targets: Iterable[str], body_bytes: int) -> float | None:
        """The highest median among some targets, or nothing if none of them was read."""
        medians = [self.median(figure, target, body_bytes) for target in targets]
        return max((value for value in medians if value is not None), default=None)
