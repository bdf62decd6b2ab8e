"""The columns of a message: their names, their types, and which of them can be written.

Plain Python, so that both sides of the wire can import it: the broker, and Spark's workers.

An application property keeps the type that it has in AMQP. Its `type` is one of the names below,
and its `value` the text that goes with it; `null` has no text.

    string, symbol, char                            the text itself
    ubyte ushort uint ulong byte short int long     digits
    float, double                                   as Python writes it: 0.1, 1e+16, nan, inf
    boolean                                         true or false
    timestamp                                       2026-11-16T08:30:00.000Z, or its milliseconds
    uuid                                            b4dd2ac8-3f3f-4b8c-9d0a-0a1b2c3d4e5f
    binary                                          base64
    decimal32, decimal64, decimal128                the digits of their bytes, hexadecimal
    com.microsoft:timespan (and its siblings)       the text of what is described: ticks, or a URI
    amqp                                            base64 of the AMQP encoding: anything else
"""

from enum import Enum
from typing import Final


class ColumnType(Enum):
    """The type of a column, by its name in Spark."""

    INT = "INT"
    BIGINT = "BIGINT"
    TIMESTAMP = "TIMESTAMP"
    STRING = "STRING"
    BINARY = "BINARY"
    PROPERTIES = "MAP<STRING, STRUCT<type: STRING, value: STRING>>"


# In this order. All may be null.
COLUMNS: Final[dict[str, ColumnType]] = {
    "fragment": ColumnType.INT,
    "sequence_number": ColumnType.BIGINT,
    "enqueued_time": ColumnType.TIMESTAMP,
    "state": ColumnType.STRING,
    "message_id": ColumnType.STRING,
    "session_id": ColumnType.STRING,
    "partition_key": ColumnType.STRING,
    "correlation_id": ColumnType.STRING,
    "subject": ColumnType.STRING,
    "content_type": ColumnType.STRING,
    "to": ColumnType.STRING,
    "reply_to": ColumnType.STRING,
    "reply_to_session_id": ColumnType.STRING,
    # Milliseconds.
    "time_to_live": ColumnType.BIGINT,
    "expires_at": ColumnType.TIMESTAMP,
    "scheduled_enqueue_time": ColumnType.TIMESTAMP,
    "delivery_count": ColumnType.INT,
    "dead_letter_reason": ColumnType.STRING,
    "dead_letter_error_description": ColumnType.STRING,
    "dead_letter_source": ColumnType.STRING,
    "application_properties": ColumnType.PROPERTIES,
    "body": ColumnType.BINARY,
    # One of `BODY_TYPES`.
    "body_type": ColumnType.STRING,
}

# What a message's body was in AMQP: plain data, which nearly all have, or a value that is a text or
# binary, and the column has its bytes; any other value or a sequence, and it has the AMQP encoding.
BODY_TYPES: Final = ("data", "text", "binary", "value", "sequence")

# What a writer may give. The properties may also be plain texts (MAP<STRING, STRING>), and the body
# a text, which is written as UTF-8.
WRITABLE: Final = (
    "message_id",
    "session_id",
    "partition_key",
    "correlation_id",
    "subject",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
    "time_to_live",
    "scheduled_enqueue_time",
    "application_properties",
    "body",
    "body_type",
)

# The states of messages that can be read, by what the column says of them.
STATES: Final = ("active", "deferred", "scheduled", "reserved")

# .NET's own types, which travel as described values.
DESCRIBED_TYPES: Final = (
    "com.microsoft:timespan",
    "com.microsoft:datetime-offset",
    "com.microsoft:uri",
)


def spark_schema(names: tuple[str, ...] = tuple(COLUMNS)) -> str:
    """Return the columns as Spark's DDL writes them."""
    return ", ".join(f"`{name}` {COLUMNS[name].value}" for name in names)
