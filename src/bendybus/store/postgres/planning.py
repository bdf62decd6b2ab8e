"""What a session tells the planner, so that no plan depends on what statistics say.

A prepared statement is planned once and for all values. That may happen when a queue was just
emptied: then the planner takes a table of one row for granted and reads it from end to end, and
keeps doing so while it grows to millions, until autovacuum comes round. Statements are therefore
written so that one good plan is possible (queries/messages.sql says how), and what could be
preferred to it while a table is small is switched off here. A plan that needs any of it costs more
than `DISABLED_COST`, which the tests look for.
"""

from collections.abc import Mapping
from typing import Final

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}

# What PostgreSQL adds to the cost of whatever is switched off.
DISABLED_COST: Final = 1e10
