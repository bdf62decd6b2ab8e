"""How long ago: `90s`, `15m`, `36h`, `7d`, or several of them as in `1d12h`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.cli.failure import CommandFailed

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_AGE: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")


def moment_before(text: str | None, option: str) -> datetime | None:
    """Return when it was so long ago; None if nothing was said."""
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    if not text or found is None:
        raise CommandFailed(f"{option} {text!r} must be like 90s, 15m, 36h, 7d or 1d12h")
    parts = {
        unit: int(number or 0) for unit, number in zip(_UNITS.values(), found.groups(), strict=True)
    }
    return datetime.now(UTC) - timedelta(**parts)
