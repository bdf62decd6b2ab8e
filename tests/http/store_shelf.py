"""A few stores in memory, for tests of the HTTP side."""

from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette

from bendybus.broker.authenticate import Authentication
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.rate_limits import Rates
from bendybus.content.rule_view import WireContentReader
from bendybus.http.front import Front
from bendybus.http.rest import Rest
from bendybus.model.access import AccessRule, Right, make_sas
from bendybus.model.errors import StoreNotFound
from bendybus.model.ids import Instant
from bendybus.model.store_status import StoreState, StoreStatus
from bendybus.testing.clock import ManualClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANY_RATE = Rates()
RULES = (
    AccessRule("Root", "root-key", frozenset({Right.MANAGE})),
    AccessRule("Sender", "send-key", frozenset({Right.SEND})),
)


def authorized(
    rule: str = "Root",
    key: str = "root-key",
    resource: str = "http://localhost/",
    now: datetime = NOON,
) -> dict[str, str]:
    """Return the header of a caller who holds the key."""
    return {"Authorization": make_sas(resource, rule, key, now + timedelta(minutes=5))}


def no_entities() -> Namespaces:
    """Return a namespace without entities, and no others."""
    namespaces = Namespaces([], WireContentReader())
    namespaces.add("ns", RULES)
    return namespaces


def authentication(now: datetime = NOON, rates: Rates = ANY_RATE) -> Authentication:
    """Return what checks the tokens of `authorized`, in a namespace without entities."""
    clock = ManualClock(Instant(int(now.timestamp() * 1000)))
    return Authentication(no_entities().default, clock, rates=rates)


def front(app: Starlette) -> Front:
    """Return what serves an application, in a namespace without entities."""
    rest = Rest(no_entities().default, authentication(), ManualClock())
    return Front("ns", rest, app, lambda: NOON)


class StoreShelf:
    """Keeps what it is told about a number of stores; implements `StoreDrills`."""

    def __init__(self, count: int) -> None:
        self._states = [StoreState.ONLINE] * count

    def stores(self) -> list[StoreStatus]:
        return [
            StoreStatus(
                number=number,
                state=state,
                reason=None if state is StoreState.ONLINE else "taken offline",
                path=f"data/store-{number:02}.db",
                size_bytes=4096 * (number + 1),
                fragments=2,
            )
            for number, state in enumerate(self._states)
        ]

    async def take_offline(self, number: int) -> None:
        self._set(number, StoreState.OFFLINE)

    async def bring_online(self, number: int) -> None:
        self._set(number, StoreState.ONLINE)

    def _set(self, number: int, state: StoreState) -> None:
        if number >= len(self._states):
            raise StoreNotFound(
                f"There is no store {number}; they are 0 to {len(self._states) - 1}"
            )
        self._states[number] = state
