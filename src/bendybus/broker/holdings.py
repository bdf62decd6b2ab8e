"""What every store holds of the entities that are served, whatever their namespace."""

from collections.abc import Sequence

from bendybus.broker.departures import Departures
from bendybus.broker.served_queue import ServedSubQueue, Source, Timetable
from bendybus.broker.stages_under_way import StagesUnderWay
from bendybus.broker.tallying import Tallying
from bendybus.broker.traces import Traces
from bendybus.model.ids import QueueNumber
from bendybus.store.port import Store


class Holdings:
    """The stores, which queues each of them has, and what is to be looked at there, and when."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        # For each store: which sub-queue of which entity a queue number of it means.
        self.places: list[dict[QueueNumber, tuple[ServedSubQueue, Source]]] = [{} for _ in stores]
        # Of these, those whose messages are received by session.
        self.session_places: list[dict[QueueNumber, tuple[ServedSubQueue, Source]]] = [
            {} for _ in stores
        ]
        self.timetables = [Timetable() for _ in stores]
        self.departures = Departures()
        self.tallying = Tallying(stores)
        self.under_way = StagesUnderWay()
        # Set before anything is served.
        self.traces: Traces | None = None
