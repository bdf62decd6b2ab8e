"""Builds a running broker from settings: the one place that names a concrete store."""

from bendybus.assemble.desks import websockets_to
from bendybus.assemble.drills import StoreDrills
from bendybus.assemble.running import run_broker

__all__ = ["StoreDrills", "run_broker", "websockets_to"]
