"""RabbitMQ as Debian packages it, run as the benchmark's own process with default settings.

Nothing of a RabbitMQ that the machine may run otherwise is touched: the node has its own ports, its
own name service (epmd), its own cookie (in a HOME of its own) and keeps everything in the folder
given.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.brokers import RunningBroker
from bench.processes import (
    BenchmarkError,
    environment_without,
    free_port,
    is_listening,
    stop,
    wait_until,
)

# The scripts in /usr/sbin would change to the user of Debian's service; these run as whoever asks.
SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")
NODE_NAME: Final = "bench@localhost"
START_SECONDS_MAX: Final = 120.0

# Name and AMQP 0-9-1 arguments. Both are durable; the client marks its messages durable too.
QUEUE_ARGUMENTS: Final[Mapping[str, str]] = {
    "classic": "[]",
    "quorum": '[{<<"x-queue-type">>,longstr,<<"quorum">>}]',
}


class RabbitMq:
    """The peer."""

    name = "rabbitmq"
    queues = tuple(QUEUE_ARGUMENTS)

    def version(self) -> str:
        """Debian's version of the package."""
        query = ["dpkg-query", "--show", "--showformat=${Version}", "rabbitmq-server"]
        return subprocess.run(query, check=True, capture_output=True, text=True).stdout

    @contextmanager
    def running(self, folder: Path) -> Iterator[RunningBroker]:
        """Start the node, declare the queues if they are not there, and stop it at the end."""
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        environment = node_environment(folder, port)
        with (folder / "output.log").open("ab") as output:
            process = subprocess.Popen(
                [SCRIPTS / "rabbitmq-server"],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us; we stop the node in good order
            )
        try:
            wait_until(
                lambda: is_listening(port) or process.poll() is not None,
                seconds_max=START_SECONDS_MAX,
                what="RabbitMQ to listen",
            )
            if process.poll() is not None:
                raise BenchmarkError(f"RabbitMQ did not start, see {folder / 'output.log'}")
            declare_queues(folder, environment)
            yield RunningBroker(
                system=self.name,
                pid=process.pid,
                port=port,
                user="guest",
                password="guest",  # noqa: S106 - the account that the package makes
                addresses={queue: f"/amq/queue/{queue}" for queue in self.queues},
            )
        finally:
            stop(process)
            stop_name_service(environment)


def node_environment(folder: Path, port: int) -> dict[str, str]:
    """Where the node keeps its things and listens; everything else stays as packaged."""
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    (folder / "enabled_plugins").write_text("[rabbitmq_amqp1_0].\n")
    return environment_without("RABBITMQ_") | {
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(free_port()),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": NODE_NAME,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        # Lets the start script become the node instead of waiting for it, so that our child is the
        # process to measure.
        "RUNNING_UNDER_SYSTEMD": "true",
    }


def declare_queues(folder: Path, environment: Mapping[str, str]) -> None:
    """Declare the durable queues, once per folder: later starts find them there."""
    done = folder / "queues-declared"
    if done.exists():
        return
    declarations = [
        f'rabbit_amqqueue:declare({{resource,<<"/">>,queue,<<"{queue}">>}},'
        f'true,false,{arguments},none,<<"bench">>)'
        for queue, arguments in QUEUE_ARGUMENTS.items()
    ]
    subprocess.run(
        [SCRIPTS / "rabbitmqctl", "eval", ", ".join(declarations) + "."],
        env=environment,
        check=True,
        capture_output=True,
        timeout=START_SECONDS_MAX,
    )
    done.touch()


def stop_name_service(environment: Mapping[str, str]) -> None:
    """End the epmd that the node started in the background on our port."""
    epmd = shutil.which("epmd")
    if epmd is None:
        raise BenchmarkError("Erlang's epmd is not on the path; run bench/setup")
    # It refuses while a node is still registered, which after a killed node is for a moment.
    subprocess.run([epmd, "-kill"], env=environment, check=False, capture_output=True, timeout=30)
