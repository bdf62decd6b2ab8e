"""`bendybus serve`: run a broker in the foreground until told to stop."""

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bendybus.cli.announcement import announcement
from bendybus.cli.event_loop import loop_factory
from bendybus.cli.failure import end_at_once
from bendybus.cli.log_output import write_log
from bendybus.config_file import load_config
from bendybus.model.errors import DataFolderUnusable
from bendybus.model.namespace import Namespace
from bendybus.settings import (
    Choices,
    LogFormat,
    LogLevel,
    MetricsReaders,
    Plain,
    RunningPorts,
    Settings,
    choices_from_environment,
    places_from,
    port_or_none,
    settle,
)

_log = logging.getLogger(__name__)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="BENDYBUS_CONFIG",
        help="The namespace: Microsoft's emulator Config.json as it is, or the same keys in YAML."
        " Without it the namespace has the entities it had before.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(help="Folder that holds the messages. [BENDYBUS_DATA; default ./bendybus-data]"),
]
StoresOption = Annotated[
    int | None,
    typer.Option(
        help="Number of messaging stores; it may grow later, but not fall below those in use."
        " [BENDYBUS_STORES; default 16]"
    ),
]
StoreOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="A PostgreSQL database that is to be a messaging store, such as"
        " postgresql://user@host/database; once for every store, always in the same order. Any"
        " number of brokers may share them. [BENDYBUS_STORES, separated by spaces]",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Front ends on this machine that share the doors and the stores, each a process;"
        " about one per processor. [BENDYBUS_WORKERS; default 1]"
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on. Any other than this machine's own needs a key of yours and a"
        " certificate. [BENDYBUS_HOST; default 127.0.0.1]"
    ),
]
PlainOption = Annotated[
    Plain | None,
    typer.Option(
        help="Where AMQP and HTTP may be served without encryption; 'anywhere' lets others read"
        " keys and messages on their way. [BENDYBUS_PLAIN; default loopback]"
    ),
]
AmqpPortOption = Annotated[
    int | None,
    typer.Option(help="Port for AMQP; 0 takes a free one. [BENDYBUS_AMQP_PORT; default 5672]"),
]
HttpPortOption = Annotated[
    int | None,
    typer.Option(help="Port for HTTP; 0 takes a free one. [BENDYBUS_HTTP_PORT; default 5300]"),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(
        help="Certificate in PEM form, followed by those that lead to its authority; it opens"
        " AMQPS and HTTPS. `bendybus cert` makes one. [BENDYBUS_TLS_CERT]"
    ),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option(help="Its private key, not encrypted. [BENDYBUS_TLS_KEY]")
]
AmqpsPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port for AMQP with TLS; 0 takes a free one. [BENDYBUS_AMQPS_PORT; default 5671]"
    ),
]
HttpsPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port for HTTPS and AMQP over WebSocket; clients take 443 unless told otherwise; 0"
        " takes a free one. [BENDYBUS_HTTPS_PORT; default 5443]"
    ),
]
FlightPortOption = Annotated[
    str | None,
    typer.Option(
        help="Port for Arrow Flight, by which Spark reads and writes in bulk; 0 takes a free one,"
        " none has no such door. [BENDYBUS_FLIGHT_PORT; default 5301]"
    ),
]
FlightTlsPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port for Arrow Flight with TLS; 0 takes a free one."
        " [BENDYBUS_FLIGHT_TLS_PORT; default 5302]"
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        help="File with the key that opens the namespace; or put the key in BENDYBUS_KEY."
        " [BENDYBUS_KEY_FILE; default the emulator's SAS_KEY_VALUE]"
    ),
]
MetricsOption = Annotated[
    MetricsReaders | None,
    typer.Option(
        help="Who may read /metrics: all, or those with a token for Manage."
        " [BENDYBUS_METRICS; default all if only this machine reaches the broker, else managers]"
    ),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        help="How the log is written, to standard error. [BENDYBUS_LOG_FORMAT; default text]"
    ),
]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        help="What is written; 'info' also tells every refusal. [BENDYBUS_LOG_LEVEL; default"
        " warning]"
    ),
]
ReadyFileOption = Annotated[
    Path | None,
    typer.Option(help="Write the ports and the process id here, as JSON, once ready."),
]


def serve(  # noqa: PLR0913, PLR0917 - an argument is an option here, always given by name
    config: ConfigOption = None,
    data: DataOption = None,
    stores: StoresOption = None,
    store: StoreOption = None,
    workers: WorkersOption = None,
    host: HostOption = None,
    plain: PlainOption = None,
    amqp_port: AmqpPortOption = None,
    http_port: HttpPortOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    amqps_port: AmqpsPortOption = None,
    https_port: HttpsPortOption = None,
    flight_port: FlightPortOption = None,
    flight_tls_port: FlightTlsPortOption = None,
    key_file: KeyFileOption = None,
    metrics: MetricsOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    ready_file: ReadyFileOption = None,
) -> None:
    """Run the broker until Ctrl-C.

    Once ready it prints a connection string for the official Azure Service Bus clients.
    A message is accepted when it is on disk: stop or kill the broker at any moment, start it
    again on the same folder, and everything is there.

    Try it: `bendybus serve --config examples/namespace.yaml`
    """
    options = Choices(
        data=data,
        stores=stores,
        places=places_from(store, "--store"),
        workers=workers,
        host=host,
        plain=plain,
        amqp_port=amqp_port,
        http_port=http_port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        amqps_port=amqps_port,
        https_port=https_port,
        flight_port=port_or_none(flight_port, "--flight-port"),
        flight_tls_port=flight_tls_port,
        key_file=key_file,
        metrics=metrics,
        log_format=log_format,
        log_level=log_level,
    )
    settings = _settings(options, config)
    write_log(settings.log_format, settings.log_level)
    _prepare_data_folder(settings)
    with _ready_file_only_while_serving(ready_file):
        _run(settings, ready_file)


def _settings(options: Choices, config: Path | None) -> Settings:
    environment = choices_from_environment(os.environ)
    if config is None:
        return settle([options, environment], Namespace())
    read = load_config(config)
    return settle([options, environment, read.choices], read.namespace, read.others)


def _run(settings: Settings, ready_file: Path | None) -> None:
    if settings.workers > 1:
        _keep_workers(settings, ready_file)
        return
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run_until_stopped(settings, ready_file))


def _prepare_data_folder(settings: Settings) -> None:
    """Make the folder and try to write in it, so that a mistake shows before anything starts."""
    folder = settings.data
    if settings.places:
        if any(folder.glob("store-*.db")):
            _log.warning("stores are given by URL: those in the folder %s are not served", folder)
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataFolderUnusable(
            f"cannot write in the data folder {folder}: {error.strerror}; choose another with"
            " --data"
        ) from None


async def _run_until_stopped(settings: Settings, ready_file: Path | None) -> None:
    from bendybus.assemble import run_broker

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop_or_end, stop, number)

    await run_broker(settings, partial(_announce, settings, ready_file), stop)


def _keep_workers(settings: Settings, ready_file: Path | None) -> None:
    # What is imported before the workers are made, they have in common.
    from bendybus.assemble.workers import keep_workers
    from bendybus.cli.worker import serve_as_worker

    announce = partial(_announce, settings, ready_file)
    keep_workers(settings, serve_as_worker, announce, _say_stopping)


def _announce(settings: Settings, ready_file: Path | None, ports: RunningPorts) -> None:
    if ready_file is not None:
        _write_ready_file(ready_file, ports)
    typer.echo(announcement(settings, ports))
    # The last that it says for long: whoever reads it by a pipe is to have it now.
    sys.stdout.flush()


def _stop_or_end(stop: asyncio.Event, number: signal.Signals) -> None:
    if stop.is_set():
        end_at_once(128 + number)
    stop.set()
    _say_stopping()


def _say_stopping() -> None:
    with suppress(OSError):  # whoever read what it says may be gone; it stops all the same
        typer.echo("Stopping; once more ends it at once.", err=True)


@contextmanager
def _ready_file_only_while_serving(path: Path | None) -> Iterator[None]:
    """Remove the file before and after, so that one of an earlier run cannot mislead."""
    if path is None:
        yield
        return
    path.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _write_ready_file(path: Path, ports: RunningPorts) -> None:
    """Put the file in place whole: whoever waits for it must never read half of it."""
    content = {**asdict(ports), "pid": os.getpid()}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(content))
    unfinished.replace(path)
