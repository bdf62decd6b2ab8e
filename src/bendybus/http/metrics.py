"""`/metrics`: the figures of the broker, for Prometheus.

Everything is counted elsewhere as plain numbers; asking is what costs, so whoever asks within a
second of the last one gets the same answer, and all who ask at once wait for one survey.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

import bendybus
from bendybus.broker.clock import Clock
from bendybus.broker.holdings import Holdings
from bendybus.broker.readers import unreserved
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.survey import SurveyedFragment, SurveyedStore, survey, survey_own
from bendybus.doors.figures import FlightFigures
from bendybus.http import metric_families as families
from bendybus.http.authorization import Authorization
from bendybus.http.metrics_text import OPEN_METRICS_TYPE, TEXT_TYPE, MetricsText, escaped
from bendybus.model.actions import Action
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.store_status import StoreState
from bendybus.store.port import Tally
from bendybus.store.readers import ReaderRecord

FIGURES: Final = "figures"
"""What another worker is asked for its own by."""
FRESH_MS: Final = 500
# After so many fragments others get their turn.
FRAGMENTS_TOGETHER: Final = 500
# Others are counted together: anybody can make methods up.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorFigures:
    """What comes in by the doors."""

    amqp_connections: int
    amqp_blocked: int
    amqp_links: int
    http_connections: int
    # By method and status.
    http_answers: Mapping[tuple[str, int], int]
    # None where there is no bulk door.
    flight: FlightFigures | None = None


class Workers(Protocol):
    """The other workers of a broker that has several, as far as figures go."""

    number: int

    async def ask(self, question: str) -> Mapping[int, bytes | None]:
        """Ask each of them; None of one that does not answer."""
        ...


class Metrics:
    """Surveys the broker, at most so often; one of several workers, all of them."""

    def __init__(
        self,
        holdings: Holdings,
        clock: Clock,
        doors: Callable[[], DoorFigures] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._workers = workers
        # Not when this was imported: a worker has that from the process that made it.
        self._started_at = time.time()
        self._holdings = holdings
        self._clock = clock
        self._doors = doors
        self._read_at: Instant | None = None
        self._reading: asyncio.Task[MetricsText] | None = None

    async def read(self) -> MetricsText:
        """Return the figures as of now, or of a moment ago."""
        now = self._clock.now()
        if (
            self._reading is None
            or self._read_at is None
            or (self._reading.done() and not 0 <= now - self._read_at < FRESH_MS)
        ):
            self._read_at = now
            self._reading = asyncio.create_task(self._survey(), name="metrics")
        # Whoever gives up must not take the answer from the others.
        return await asyncio.shield(self._reading)

    async def own(self) -> bytes:
        """Return what this worker counts for itself, for another one that was asked."""
        stores = survey_own(self._holdings)
        return json.dumps((await self._written(stores)).of_one_worker()).encode()

    async def _survey(self) -> MetricsText:
        text = await self._written(await survey(self._holdings))
        if self._workers is None:
            return text
        answers = await self._workers.ask(FIGURES)
        return text.join(
            {
                self._workers.number: text.of_one_worker(),
                **{
                    number: None if answer is None else json.loads(answer)
                    for number, answer in answers.items()
                },
            }
        )

    async def _written(self, stores: Sequence[SurveyedStore]) -> MetricsText:
        text = MetricsText()
        surveyed = 0
        now = self._clock.now()
        for store in stores:
            _add_store(text, store)
            for fragment in store.fragments():
                _add_fragment(text, fragment, now)
                surveyed += 1
                if surveyed % FRAGMENTS_TOGETHER == 0:
                    await asyncio.sleep(0)
        if self._doors is not None:
            _add_doors(text, self._doors())
        _add_process(text, self._started_at)
        return text


class _MetricsRoute(Route):
    """Leaves a queue of that name to management, whose requests have a version, always."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Say whether a request is for this."""
        if b"api-version=" in scope.get("query_string", b""):
            return Match.NONE, {}
        return super().matches(scope)


def metrics_routes(metrics: Metrics, authorization: Authorization | None) -> list[Route]:
    """Return the route. Without an authorization everybody may read."""

    async def read(request: Request) -> Response:
        if authorization is not None:
            await authorization.require(request, Action.READ_METRICS)
        is_open_metrics = "application/openmetrics-text" in request.headers.get("accept", "")
        text = (await metrics.read()).text(is_open_metrics=is_open_metrics)
        return Response(text, media_type=OPEN_METRICS_TYPE if is_open_metrics else TEXT_TYPE)

    return [_MetricsRoute("/metrics", read, methods=["GET"])]


def _add_store(text: MetricsText, store: SurveyedStore) -> None:
    status, figures = store.status, store.figures
    labels = f'store="{status.number}"'
    text.add(families.STORE_UP, labels, int(status.state is StoreState.ONLINE))
    text.add(families.STORE_BYTES, labels, status.size_bytes)
    text.add(families.STORE_LOG_BYTES, labels, figures.log_bytes)
    text.add(families.STORE_FRAGMENTS, labels, status.fragments)
    text.add(families.STORE_WAITING, labels, figures.waiting)
    if store.staged is not None:
        text.add(families.STORE_STAGED, labels, store.staged.bytes)
        text.add(families.STORE_UNFINISHED, labels, store.staged.unfinished)
    text.add(families.STORE_FAILURES, labels, figures.failures)
    text.add(families.STORE_WRITE_BACKS, labels, figures.write_backs)
    text.add_histogram(families.COMMIT_SECONDS, labels, figures.commit_seconds)
    text.add_histogram(families.COMMIT_CALLERS, labels, figures.commit_callers)


def _add_fragment(text: MetricsText, fragment: SurveyedFragment, now: Instant) -> None:
    """Add what there is to tell; of a dead-letter queue that is empty and unused, nothing."""
    sub_queue, source, tally, locked, readers, events = fragment
    is_main = sub_queue.sub_queue is SubQueue.MAIN
    if is_main and source.fragment == 0:
        _add_receivers(text, sub_queue)
    held = 0 if tally is None else tally.active + tally.scheduled + tally.deferred
    if not (is_main or held or readers or events):
        return
    labels = (
        f"{_entity_labels(sub_queue)},"
        f'sub_queue="{sub_queue.sub_queue.name.lower()}",fragment="{source.fragment}"'
    )
    if tally is not None:
        _add_tally(text, labels, fragment, now)
    if locked:
        text.add(families.LOCKED, labels, locked)
    for reader in readers:
        _add_reader(text, labels, reader, tally, now)
    for (event, reason), count in events.items():
        labels_there = f'{labels},reason="{reason}"' if reason else labels
        text.add(families.EVENTS[event], labels_there, count)


def _add_tally(text: MetricsText, labels: str, fragment: SurveyedFragment, now: Instant) -> None:
    tally = fragment.tally
    assert tally is not None
    text.add(families.MESSAGES, f'{labels},state="active"', tally.active)
    if tally.scheduled or fragment.events:
        text.add(families.MESSAGES, f'{labels},state="scheduled"', tally.scheduled)
    if tally.deferred or fragment.events:
        text.add(families.MESSAGES, f'{labels},state="deferred"', tally.deferred)
    if fragment.sub_queue.sub_queue is SubQueue.MAIN:
        text.add(families.BYTES, labels, tally.bytes)
    age = 0 if tally.oldest_at is None else max(now - tally.oldest_at, 0)
    if age or fragment.events:
        text.add(families.OLDEST, labels, age / 1000)


def _add_reader(
    text: MetricsText, labels: str, reader: ReaderRecord, tally: Tally | None, now: Instant
) -> None:
    labels = f'{labels},reader="{escaped(reader.name)}"'
    age = 0 if reader.oldest_at is None else max(now - reader.oldest_at, 0)
    text.add(families.RESERVED, labels, reader.messages)
    text.add(families.RESERVED_AGE, labels, age / 1000)
    text.add(families.READER_LAG, labels, unreserved(tally))
    if reader.active_at:
        text.add(families.READER_IDLE, labels, max(now - reader.active_at, 0) / 1000)


def _add_receivers(text: MetricsText, sub_queue: ServedSubQueue) -> None:
    if sub_queue.has_sessions:
        held = sub_queue.held_sessions.count
        text.add(families.SESSIONS_HELD, _entity_labels(sub_queue), held)
    if sub_queue.waiting.count:
        text.add(families.RECEIVERS_WAITING, _entity_labels(sub_queue), sub_queue.waiting.count)


def _entity_labels(sub_queue: ServedSubQueue) -> str:
    queue = sub_queue.queue
    return f'namespace="{escaped(queue.namespace)}",entity="{escaped(queue.name)}"'


def _add_doors(text: MetricsText, doors: DoorFigures) -> None:
    text.add(families.CONNECTIONS, 'protocol="amqp"', doors.amqp_connections)
    text.add(families.CONNECTIONS, 'protocol="http"', doors.http_connections)
    text.add(families.LINKS, "", doors.amqp_links)
    text.add(families.BLOCKED, "", doors.amqp_blocked)
    answers: dict[tuple[str, int], int] = {}
    for (method, status), count in doors.http_answers.items():
        key = (method if method in METHODS else "other"), status
        answers[key] = answers.get(key, 0) + count
    for (method, status), count in sorted(answers.items()):
        text.add(families.HTTP_ANSWERS, f'method="{method}",status="{status}"', count)
    if doors.flight is not None:
        _add_flight(text, doors.flight)


def _add_flight(text: MetricsText, flight: FlightFigures) -> None:
    text.add(families.BULK_STREAMS, "", flight.streams)
    text.add(families.BULK_ROWS, 'direction="out"', flight.rows_out)
    text.add(families.BULK_ROWS, 'direction="in"', flight.rows_in)
    text.add(families.BULK_BYTES, 'direction="out"', flight.bytes_out)
    text.add(families.BULK_BYTES, 'direction="in"', flight.bytes_in)
    text.add(families.BULK_CALLS, 'outcome="answered"', flight.answered)
    text.add(families.BULK_CALLS, 'outcome="refused"', flight.refused)


def _add_process(text: MetricsText, started_at: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    text.add(families.CPU, "", used.ru_utime + used.ru_stime)
    text.add(families.STARTED, "", started_at)
    # Where the system tells: elsewhere they are left out.
    pages, files = Path("/proc/self/statm"), Path("/proc/self/fd")
    if pages.exists() and files.exists():
        resident = int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        text.add(families.MEMORY, "", resident)
        text.add(families.FILES, "", sum(1 for _ in files.iterdir()))
    python = ".".join(map(str, sys.version_info[:3]))
    text.add(families.BUILD, f'version="{bendybus.__version__}",python="{python}"', 1)
