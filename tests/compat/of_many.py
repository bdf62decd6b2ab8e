"""Three front ends over two PostgreSQL stores, which clients reach by one address."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bendybus.settings import TlsFiles
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.cut_network import cut_network
from bendybus.testing.postgres import UNSYNCED, postgres_server

FRONT_ENDS: Final = 3
STORES: Final = 2


class Address(BrokerProcess):
    """Where clients come to; the front ends behind it take turns with their connections."""

    def __init__(self, folder: Path, config: Path, front_ends: list[BrokerProcess]) -> None:
        super().__init__(folder, config)
        self._front_ends = front_ends

    @property
    def log(self) -> str:
        """What all of them printed so far."""
        return "".join(each.log for each in self._front_ends)


@contextmanager
def many_front_ends(config: Path, *, folder: Path, tls: TlsFiles) -> Iterator[BrokerProcess]:
    """Run them while the block runs."""
    with ExitStack() as stack, ThreadPoolExecutor(FRONT_ENDS) as beside:
        server = stack.enter_context(postgres_server(UNSYNCED))
        urls = [server.url(server.make_database()) for _ in range(STORES)]
        folders = [folder / f"front-end-{number}" for number in range(FRONT_ENDS)]
        for each in folders:
            each.mkdir()
        front_ends = [BrokerProcess(each, config, tls=tls, stores=urls) for each in folders]
        for front_end in front_ends:
            stack.callback(front_end.kill)
        list(beside.map(BrokerProcess.start, front_ends))
        address = Address(folder, config, front_ends)
        for door in ("amqp_port", "http_port", "amqps_port", "https_port"):
            ports = [getattr(each, door) for each in front_ends]
            setattr(address, door, stack.enter_context(cut_network(*ports)).port)
        yield address
