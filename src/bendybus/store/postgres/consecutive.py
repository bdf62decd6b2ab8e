"""The hottest statements once more, for messages that lie one behind the other.

Mostly they do: what was sent together is received together and completed together. Then one walk
along an index finds them all, and two numbers name them, where else each would be looked up by
itself (decisions/0022).
"""

from collections.abc import Mapping
from typing import Final

from bendybus.store.postgres.statements import STATEMENTS

_NAMED: Final = "id = ANY ($1::bigint[])"
_FROM_TO: Final = "id BETWEEN ($1::bigint[])[1] AND ($1::bigint[])[2]"
_HOTTEST: Final = (
    "lock_messages",
    "find_guarded",
    "remove_messages",
    "remove_bodies",
    "unlock_messages",
    "renew_messages",
)
_READ_BODIES: Final = """
SELECT '[' || coalesce(string_agg(octet_length(content)::text, ','), '') || ']',
       string_agg(content, ''::bytea)
  FROM (SELECT content FROM body
         WHERE id BETWEEN ($1::bigint[])[1] AND ($1::bigint[])[2] ORDER BY id) AS found"""

# By the name of the other form. Ids, the first parameter, are an array of the first and the last.
CONSECUTIVE: Final[Mapping[str, str]] = {
    **{name: STATEMENTS[name].replace(_NAMED, _FROM_TO) for name in _HOTTEST},
    "read_bodies": _READ_BODIES,
}
