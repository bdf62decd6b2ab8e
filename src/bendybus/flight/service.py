"""What all servers of the bulk door have in common."""

from typing import NamedTuple

from bendybus.broker.clock import Clock
from bendybus.flight.calls import Calls
from bendybus.flight.desk import Desk
from bendybus.flight.hop import Hop


class Service(NamedTuple):
    """Who is asked, who may ask, and how to get to the broker's loop."""

    desk: Desk
    calls: Calls
    hop: Hop
    clock: Clock
