"""A client for the time of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from bendybus.cli.failure import CommandFailed
from bendybus.client import Client
from bendybus.client.errors import ClientError
from bendybus.model.errors import ArgumentInvalid


@contextmanager
def connected(connection_string: str) -> Iterator[Client]:
    """Open a client whose refusals end the command in one line."""
    try:
        with connection_string_explained():
            made = Client.from_connection_string(connection_string)
        with made as client:
            yield client
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    except ClientError as error:
        raise CommandFailed(str(error)) from None


@contextmanager
def connection_string_explained() -> Iterator[None]:
    """Say of a connection string that is none where one is found."""
    try:
        yield
    except ArgumentInvalid as error:
        raise CommandFailed(f"{error.message}; the broker prints it when it starts") from None
