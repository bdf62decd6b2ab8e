"""Columns of frames against those of messages."""

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_servicebus.message_columns import ColumnInvalid, check_read, check_write


def frame(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_narrower_schema_names_what_is_read() -> None:
    schema = frame(body=BinaryType(), sequence_number=LongType())
    assert check_read(schema) == ("body", "sequence_number")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (frame(boddy=BinaryType()), "no column 'boddy'; did you mean body"),
        (frame(body=StringType()), "body is binary, not string"),
        (StructType([*frame(to=StringType()), *frame(to=StringType())]), "to is there twice"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(schema: StructType, why: str) -> None:
    with pytest.raises(ColumnInvalid, match=why):
        check_read(schema)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (frame(body=BinaryType(), sesion_id=StringType()), "did you mean session_id"),
        (frame(body=IntegerType()), "body must be binary or string, not int"),
        (frame(body=BinaryType(), time_to_live=StringType()), "must be bigint, not string"),
        (
            frame(application_properties=MapType(StringType(), IntegerType())),
            "map<string,string>, not map<string,int>",
        ),
        (frame(sequence_number=LongType()), "nothing to write"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(schema: StructType, why: str) -> None:
    with pytest.raises(ColumnInvalid, match=why):
        check_write(schema)


def test_what_the_broker_sets_itself_is_left_out_of_a_write() -> None:
    assert check_write(frame(sequence_number=LongType(), body=StringType())) == ("body",)
