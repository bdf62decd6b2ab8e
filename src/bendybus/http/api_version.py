"""What a client knows of, by the `api-version` that it names (R7.3).

Versions are dates, so they compare as texts. A client that names none gets what the first one had.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from bendybus.model.errors import ArgumentInvalid

_VERSION: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-\d{2})?", re.ASCII)
# Since when properties can be set.
_SETTABLE: Final = {
    "enable_partitioning": "2013-10",
    "max_message_size_kilobytes": "2021-05",
}
# Since when elements are in answers. Partitioning is told to every client that gets a description.
_TOLD: Final = {
    "MaxMessageSizeInKilobytes": "2021-05",
    "SqlFilterCount": "2024-05",
    "CorrelationFilterCount": "2024-05",
}


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """A version, such as `2021-05`; empty if the client names none."""

    text: str

    @property
    def omitted(self) -> frozenset[str]:
        """The elements that answers must not have."""
        return frozenset(name for name, since in _TOLD.items() if self.text < since)

    def check_settable(self, properties: Mapping[str, Any]) -> None:
        """Refuse what came later than the version. Raises `ArgumentInvalid`."""
        for field, since in _SETTABLE.items():
            # `false` is what there was before partitioning.
            if properties.get(field, False) is not False and self.text < since:
                raise ArgumentInvalid(
                    f"needs a later version of the API; add api-version={since} to the query",
                    argument=field,
                )


def version_of(request: Request) -> ApiVersion:
    """Return the version that a request names. Raises `ArgumentInvalid`."""
    names = {name.lower(): value for name, value in request.query_params.items()}
    text = names.get("api-version", "")
    if text and not _VERSION.fullmatch(text):
        raise ArgumentInvalid(f"api-version {text[:20]!r} is not a date such as 2021-05.")
    return ApiVersion(text)
