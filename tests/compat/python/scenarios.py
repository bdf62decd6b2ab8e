"""All scenarios for the official Python client: importing this declares them."""

from importlib import import_module
from typing import Final

from tests.compat.python.scenario import SCENARIOS

SUBJECTS: Final = (
    "access",
    "administration",
    "asynchronous",
    "browsing",
    "changing",
    "dead_lettering",
    "drilling",
    "forwarding",
    "locking",
    "receiving",
    "refusals",
    "restarting",
    "round_trips",
    "scheduling",
    "sending",
    "sessions",
    "settling",
    "topics",
    "transports",
)

for subject in SUBJECTS:
    import_module(f"tests.compat.python.{subject}")

__all__ = ["SCENARIOS"]
