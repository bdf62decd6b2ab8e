"""The advisory locks that front ends share, and how each is asked for.

PostgreSQL keeps them for each database apart. The first number says that they are ours.
"""

from typing import Final

_OURS: Final = 0x42454E44  # "BEND"
_TURN: Final = 1
_CARETAKER: Final = 2
_CATALOG: Final = 3

# Whoever has it may read, decide and write; given back at the end of the transaction. Waits in a
# queue, first come, first served.
TAKE_TURN: Final = f"SELECT pg_advisory_xact_lock({_OURS}, {_TURN})"

# Held by a session as long as it lives, or until it gives it back.
TRY_CARETAKER: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CARETAKER})"
LEAVE_CARETAKER: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CARETAKER})"
TRY_CATALOG: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CATALOG})"
LEAVE_CATALOG: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CATALOG})"
