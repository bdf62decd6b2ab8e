"""turns: the broker's own work goes in small steps, so that clients hardly feel it.

However much is due at once, one turn is under way at a time, over all stores: threads that work for
the sweep share the interpreter and the disk with those that work for clients. After a turn that was
full there is a rest, a multiple of the time it took, as long as clients are heard. When they are
not, turns are larger and rests just long enough to hear whether one has come.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from bendybus.store.port import Store

# How much a turn may do: beside clients, and when there are none.
COUNT_BESIDE_CLIENTS: Final = 100
COUNT_ALONE: Final = 250
# How long a rest is, in terms of the turn before it. Who has had turns for so long and is still
# not done, rests less: what is due must not be late for ever because there is always traffic.
REST_BESIDE_CLIENTS: Final = 4.0
REST_LATE: Final = 1.0
REST_ALONE: Final = 0.2
LATE_SECONDS: Final = 10.0
# A turn that takes longer holds up nobody else: its store may be slow, or hang. It also bounds the
# rest, and so says how much is dealt with even if clients use all of the machine.
TURN_SECONDS_MAX: Final = 0.02
# Clients that were heard so recently count as there.
HEARD_SECONDS: Final = 1.0


class Ear:
    """Tells whether clients are there: by commits that are not ours, as none of ours are then."""

    def __init__(self) -> None:
        self._commits = 0
        self._heard_at = 0.0

    def listen(self, commits: int, now: float) -> None:
        """Hear how many commits there were until the end of a time in which we made none."""
        if commits != self._commits:
            self._heard_at = now
        self._commits = commits

    def skip(self, commits: int) -> None:
        """Do not count the commits until now: they are ours."""
        self._commits = commits

    def hears(self, now: float) -> bool:
        """Say whether clients are there."""
        return now - self._heard_at < HEARD_SECONDS


def rest_after(took: float, *, lasting: float, is_beside_clients: bool) -> float:
    """Return how long to rest after a full turn that took so long.

    `lasting` says how long ago the first of the turns began that the work has taken so far.
    """
    times = REST_ALONE
    if is_beside_clients:
        times = REST_BESIDE_CLIENTS if lasting < LATE_SECONDS else REST_LATE
    return times * min(took, TURN_SECONDS_MAX)


# Some work: told how many messages it may deal with, it says whether there may be more.
Work = Callable[[int], Coroutine[Any, Any, bool]]


class Turns:
    """Whose turn it is, of all that work by themselves."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._ear = Ear()
        self._baton = asyncio.Lock()

    async def take(self, work: Work) -> None:
        """Take turns until there is no more to do."""
        begun = asyncio.get_running_loop().time()
        while await self._take_one(work, begun):
            continue

    async def _take_one(self, work: Work, since: float) -> bool:
        """Wait for a turn and take it. One that takes too long goes on while others have theirs."""
        time, ear = asyncio.get_running_loop().time, self._ear
        async with self._baton:
            begun = time()
            ear.listen(self._commits(), begun)
            turn = asyncio.create_task(
                work(COUNT_BESIDE_CLIENTS if ear.hears(begun) else COUNT_ALONE)
            )
            try:
                await asyncio.wait([turn], timeout=TURN_SECONDS_MAX)
                ear.skip(self._commits())
                ended = time()
                if not turn.done() or turn.result():
                    await asyncio.sleep(
                        rest_after(
                            ended - begun,
                            lasting=ended - since,
                            is_beside_clients=ear.hears(ended),
                        )
                    )
                    ear.listen(self._commits(), time())
            except BaseException:
                turn.cancel()
                raise
        return await turn

    def _commits(self) -> int:
        return sum([store.commits for store in self._stores])
