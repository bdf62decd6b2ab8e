"""What a user asked for, read from the options once, on the driver; workers get it ready."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from bendybus.columns.schema import STATES
from bendybus.model.addresses import Address, parse_address
from bendybus.model.connection_string import ConnectionString, parse_connection_string
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import SubQueue
from bendybus.model.suggestion import suggest
from pyspark_servicebus.offsets import read_sequences
from pyspark_servicebus.option_names import Given, OptionInvalid, Use

CONNECTION_VARIABLE: Final = "BENDYBUS_CONNECTION_STRING"
ENDPOINT_VARIABLE: Final = "BENDYBUS_FLIGHT_ENDPOINT"
AUTHORITY_VARIABLE: Final = "BENDYBUS_AUTHORITY"
TIMEOUT_SECONDS: Final = 60
# Spark is fastest between one and five hundred thousand rows in a batch, and a batch has a bound.
MESSAGES_PER_TRIGGER: Final = 500_000
BYTES_PER_TRIGGER: Final = 1 << 30
BYTES_PER_TRIGGER_MAX: Final = 1 << 40
NAME_LENGTH_MAX: Final = 128
_SUB_QUEUES: Final = {
    "deadletter": SubQueue.DEAD_LETTER,
    "transferdeadletter": SubQueue.TRANSFER_DEAD_LETTER,
}


class Mode(Enum):
    """How a stream reads. Consuming takes messages out; browsing changes nothing."""

    CONSUME = "consume"
    BROWSE = "browse"


class Edge(Enum):
    """An end of what an entity holds now."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """Where the broker is, what proves that we may enter, and how long we wait for it."""

    connection_string: str = field(repr=False)
    endpoint: str | None
    authority: str | None
    timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read, and how."""

    bus: Bus
    address: Address
    states: tuple[str, ...] | None
    start: Edge | Mapping[int, int]
    end: Edge | Mapping[int, int]
    since: datetime | None
    until: datetime | None
    tasks_max: int
    skips_offline: bool
    pushes_filters: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """What a stream reads, on top of that."""

    reading: Reading
    mode: Mode
    # What consumes has a name, and perhaps a token of the user's own.
    reader: str
    token: str | None
    messages_max: int
    bytes_max: int
    fails_on_data_loss: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Where rows go."""

    bus: Bus
    address: Address
    transaction: str | None
    reject_path: str | None


def reading_of(given: Given) -> Reading:
    """Read the options of a batch read."""
    given.check_for(Use.READ)
    if given.word("mode", ("browse", "consume"), "browse") != "browse":
        raise OptionInvalid(
            "option mode=consume is for spark.readStream (with .trigger(availableNow=True) it ends"
            " by itself); a batch read only browses"
        )
    return _reading(given)


def streaming_of(given: Given) -> Streaming:
    """Read the options of a stream's source."""
    given.check_for(Use.READ_STREAM)
    mode = Mode(given.word("mode", (each.value for each in Mode), Mode.BROWSE.value))
    reading = _reading(given)
    _check_end(given, reading)
    if mode is Mode.BROWSE:
        _refuse(given, ("reader", "readerToken"), "is for mode=consume")
    else:
        _refuse(
            given,
            ("states", "startingOffsets", "startingTimestamp"),
            "is for mode=browse: a consuming reader takes the oldest free messages, in order",
        )
    return Streaming(
        reading=reading,
        mode=mode,
        reader="" if mode is Mode.BROWSE else _reader(given),
        token=given.text("readerToken"),
        messages_max=given.number("maxMessagesPerTrigger", MESSAGES_PER_TRIGGER),
        bytes_max=given.number("maxBytesPerTrigger", BYTES_PER_TRIGGER, most=BYTES_PER_TRIGGER_MAX),
        fails_on_data_loss=given.truth("failOnDataLoss", default=True),
    )


def writing_of(given: Given, use: Use) -> Writing:
    """Read the options of a write."""
    given.check_for(use)
    transaction = given.text("transactionId")
    if transaction is not None and len(transaction) > NAME_LENGTH_MAX:
        raise OptionInvalid(f"option transactionId has more than {NAME_LENGTH_MAX} characters")
    address = _address(given)
    if address.sub_queue is not SubQueue.MAIN:
        raise OptionInvalid(f"'{address.resource}' cannot be written; name the entity itself")
    return Writing(
        bus=bus_of(given),
        address=address,
        transaction=transaction,
        reject_path=given.text("rejectPath"),
    )


def bus_of(given: Given) -> Bus:
    """Read where the broker is. What is not given is taken from the environment of the driver."""
    text = given.text("connectionString") or os.environ.get(CONNECTION_VARIABLE) or development()
    try:
        parse_connection_string(text)
    except ArgumentInvalid as error:
        raise OptionInvalid(f"option connectionString: {error.message}") from None
    return Bus(
        connection_string=text,
        endpoint=given.text("flightEndpoint") or os.environ.get(ENDPOINT_VARIABLE) or None,
        authority=given.text("authority") or os.environ.get(AUTHORITY_VARIABLE) or None,
        timeout_seconds=given.number("timeoutSeconds", TIMEOUT_SECONDS, most=24 * 3600),
    )


def development() -> str:
    """Return the way to the broker that `bendybus serve` starts, as the commands find it."""
    from bendybus.settings import DEFAULT_RULE_NAME, DEVELOPMENT_KEY

    return ConnectionString(
        host="localhost",
        rule_name=DEFAULT_RULE_NAME,
        key=DEVELOPMENT_KEY,
        use_development_emulator=True,
    ).to_text()


def _reading(given: Given) -> Reading:
    return Reading(
        bus=bus_of(given),
        address=_address(given),
        states=_states(given),
        start=_edge(given, "startingOffsets", Edge.EARLIEST),
        end=_edge(given, "endingOffsets", Edge.LATEST),
        since=given.time("startingTimestamp"),
        until=given.time("endingTimestamp"),
        # The process that plans does not know the cluster. What it runs on is right for a local
        # session, and the number of fragments bounds it anyway.
        tasks_max=given.number("numTasks", os.cpu_count() or 1),
        skips_offline=given.truth("skipOffline", default=False),
        pushes_filters=given.truth("pushdown", default=False),
    )


def _address(given: Given) -> Address:
    entity = given.needed("entity", "name a queue or a topic")
    try:
        address = parse_address(entity)
    except ArgumentInvalid as error:
        raise OptionInvalid(f"option entity: {error.message}") from None
    sub_queue = address.sub_queue
    if given.has("subQueue"):
        sub_queue = _SUB_QUEUES[given.word("subQueue", _SUB_QUEUES, "")]
    return Address(address.path, given.text("subscription") or address.subscription, sub_queue)


def _states(given: Given) -> tuple[str, ...] | None:
    text = given.text("states")
    if text is None:
        return None
    states = tuple(word.strip().lower() for word in text.split(","))
    for state in states:
        if state not in STATES:
            raise OptionInvalid(f"option states has '{state}'; {suggest(state, STATES)}")
    return states


def _edge(given: Given, name: str, default: Edge) -> Edge | Mapping[int, int]:
    text = given.text(name)
    if text is None:
        return default
    if text.startswith("{"):
        try:
            return read_sequences(text)
        except ValueError as error:
            raise OptionInvalid(f"option {name}: {error}") from None
    return Edge(given.word(name, (each.value for each in Edge), default.value))


def _check_end(given: Given, reading: Reading) -> None:
    """Refuse an end of a stream that would be another one each time it is asked for."""
    if given.has("endingOffsets") and isinstance(reading.end, Edge):
        raise OptionInvalid(
            f"option endingOffsets={reading.end.value} is for spark.read: a stream ends at sequence"
            ' numbers by fragment, such as {"0": 17}, or by .trigger(availableNow=True)'
        )


def _reader(given: Given) -> str:
    name = given.needed(
        "reader", "what consumes has a name, by which the broker keeps what it has reserved"
    )
    if len(name) > NAME_LENGTH_MAX:
        raise OptionInvalid(f"option reader has more than {NAME_LENGTH_MAX} characters")
    return name


def _refuse(given: Given, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if given.has(name):
            raise OptionInvalid(f"option {name} {why}; remove it")
