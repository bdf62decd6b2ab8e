"""How long, or how long ago: `90s`, `15m`, `36h`, `7d`, or several of them as in `1d12h`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.cli.failure import CommandFailed

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_AGE: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")


def duration_of(text: str) -> timedelta | None:
    """Return how long it is; None if it is not written so."""
    found = _AGE.fullmatch(text)
    if not text or found is None:
        return None
    parts = {
        unit: int(number or 0) for unit, number in zip(_UNITS.values(), found.groups(), strict=True)
    }
    return timedelta(**parts)


def moment_before(text: str | None, option: str) -> datetime | None:
    """Return when it was so long ago; None if nothing was said."""
    if text is None:
        return None
    duration = duration_of(text)
    if duration is None:
        raise CommandFailed(f"{option} {text!r} must be like 90s, 15m, 36h, 7d or 1d12h")
    return datetime.now(UTC) - duration
