"""What doors count that are made of others' parts, in plain numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightFigures:
    """What goes through the bulk door: streams that are open, and all since the start."""

    streams: int
    rows_out: int
    bytes_out: int
    rows_in: int
    bytes_in: int
    answered: int
    refused: int
