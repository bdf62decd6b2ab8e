"""What people are told of a certificate. Reading one takes a large library; knowing it does not."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Certificate:
    """The hosts that a certificate is good for, and when it ends."""

    hosts: tuple[str, ...]
    ends_at: datetime
