"""The advisory locks that front ends share, and how each is asked for.

PostgreSQL keeps them for each database apart. The first number says that they are ours.
"""

from typing import Final

_OURS: Final = 0x42454E44  # "BEND"
_TURN: Final = 1
_CARETAKER: Final = 2
_CATALOG: Final = 3
_USE: Final = 4
_MOVE: Final = 5

# Whoever has it may read, decide and write; given back at the end of the transaction. Waits in a
# queue, first come, first served.
TAKE_TURN: Final = f"SELECT pg_advisory_xact_lock({_OURS}, {_TURN})"

# Held by a session as long as it lives, or until it gives it back.
TRY_CARETAKER: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CARETAKER})"
LEAVE_CARETAKER: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CARETAKER})"
TRY_CATALOG: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CATALOG})"
LEAVE_CATALOG: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CATALOG})"

# Held by the session of a lane: together with others, or by a broker that serves the store alone.
TRY_USE: Final = f"SELECT pg_try_advisory_lock_shared({_OURS}, {_USE})"
TRY_USE_ALONE: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_USE})"

# Held by whoever moves a store away, or here. While nobody does, others can have it together, which
# tells a trigger that nobody wants its notes any more.
TRY_MOVE: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_MOVE})"
NOBODY_MOVES: Final = f"pg_try_advisory_xact_lock_shared({_OURS}, {_MOVE})"
