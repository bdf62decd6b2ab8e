"""Chunks of contents and of columns are told apart by what is said of them, not by how it looks."""

from zlib import crc32

from bendybus.store.checksum import encoded_fields
from bendybus.store.sql.chunks import said_of_columns, written
from bendybus.testing.store_contract.packed_rows import columns_of

PLACE = (1, 2, 3, 4)


def test_what_is_said_of_columns_is_found_again() -> None:
    chunk = written(PLACE, columns_of(range(4), life=7))
    assert said_of_columns(PLACE, chunk.checksum, chunk.fields) is not None
    assert said_of_columns((1, 2, 3, 5), chunk.checksum, chunk.fields) is None
    assert said_of_columns(PLACE, chunk.checksum, 5) is None


def test_a_key_that_is_called_like_a_field_makes_no_columns() -> None:
    fields = '{"partition_keys": ["column_checksums"]}'
    checksum = crc32(fields.encode(), crc32(encoded_fields(*PLACE)))
    assert said_of_columns(PLACE, checksum, fields) is None
