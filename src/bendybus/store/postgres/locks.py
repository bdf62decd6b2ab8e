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
_KIN: Final = 6

# Whoever has it may read, decide and write; given back at the end of the transaction. Waits in a
# queue, first come, first served.
TAKE_TURN: Final = f"SELECT pg_advisory_xact_lock({_OURS}, {_TURN})"

# Held by a session as long as it lives, or until it gives it back.
TRY_CARETAKER: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CARETAKER})"
LEAVE_CARETAKER: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CARETAKER})"
TRY_CATALOG: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_CATALOG})"
LEAVE_CATALOG: Final = f"SELECT pg_advisory_unlock({_OURS}, {_CATALOG})"


def _try_unless_held(lock: int, other: int) -> str:
    """Have a lock together with others, and then look whether anybody has the other one.

    Of two who do so at once at least one finds the other's.
    """
    return (
        f"SELECT CASE WHEN pg_try_advisory_lock_shared({_OURS}, {lock}) THEN NOT EXISTS"  # noqa: S608 - our own numbers
        f" (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {_OURS}"
        f" AND objid = {other} AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())) ELSE false END"
    )


# Held by the session of a lane: together with all others, or as one of the processes of the broker
# that has moved the store here, which have their machine's time until that broker is started anew.
TRY_USE: Final = _try_unless_held(_USE, _KIN)
TRY_USE_ALONE: Final = _try_unless_held(_KIN, _USE)

# Held by whoever moves a store away, or here. While nobody does, others can have it together, which
# tells a trigger that nobody wants its notes any more.
TRY_MOVE: Final = f"SELECT pg_try_advisory_lock({_OURS}, {_MOVE})"
NOBODY_MOVES: Final = f"pg_try_advisory_xact_lock_shared({_OURS}, {_MOVE})"
