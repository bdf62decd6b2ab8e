"""The access rules of a namespace itself. Every store keeps a copy, as of its entities (R7.1).

What one store has put counts, and the highest version does: so a change that was cut short is
completed when the other stores are there. One that no store has put has not happened. No two
changes have the same version, even if a front end was paused in its turn until another had it.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from bendybus.broker.access_keys import new_key
from bendybus.broker.records import NEVER, Records, StoreAge, age_of
from bendybus.model.access import AccessRule
from bendybus.model.access_rules import completed, declared, merged_with_declared
from bendybus.model.entity import name_key
from bendybus.model.errors import BusError
from bendybus.model.ids import Instant
from bendybus.store.port import AccessRecord, Store

# A version is a count and a random number: of two with the same count, one is the higher.
_CHANCE_BITS: Final = 20

_log = logging.getLogger(__name__)


class NamespaceAccess:
    """The rules whose keys open every entity of a namespace."""

    def __init__(
        self, namespace: str, records: Records, rules: tuple[AccessRule, ...] = ()
    ) -> None:
        self._namespace = namespace
        self._records = records
        self._version = 0
        # How old each store was when it was last seen to have these rules.
        self._agreed = [NEVER] * len(records.stores)
        self.rules = rules

    async def declare(self, said: Sequence[AccessRule], *, now: Instant) -> None:
        """Let the settings have their say about what the stores have.

        A store that is away does not keep the broker from starting: it is told when it is back.
        """

        async def declare() -> None:
            await self.agree()
            merged = merged_with_declared(self.rules, declared(said))
            rules = completed(merged, self.rules, make_key=new_key, now=now)
            if rules != self.rules:
                self._count(rules)
                await self.agree()

        await self._records.in_turn(declare, needs_all=False)

    async def write(self, rules: tuple[AccessRule, ...]) -> None:
        """Let rules count, and write them to every store; in turn with other changes.

        If a store fails meanwhile they count all the same, and whether they will after the next
        start is not known until it is back (`StoreFailed`).
        """
        self._count(rules)
        failures = await asyncio.gather(
            *(self._put(at) for at in range(len(self._agreed))), return_exceptions=True
        )
        for failure in failures:
            if failure is not None:
                raise failure

    async def agree(self) -> None:
        """Bring stores that came back to the rules that hold, or take newer ones from them."""
        await agree([self], self._records.stores)

    def _count(self, rules: tuple[AccessRule, ...]) -> None:
        # A store that is away may have a change that no other has: the last one, cut short. What
        # is decided without it must not be taken for that.
        count = (self._version >> _CHANCE_BITS) + 2
        self._version = count << _CHANCE_BITS | secrets.randbits(_CHANCE_BITS)
        self.rules = rules
        self._agreed = [NEVER] * len(self._agreed)

    def is_behind(self, at: int) -> bool:
        """Whether a store may have other rules than these, or none."""
        return self._agreed[at] != age_of(self._records.stores[at])

    async def bring_up(self, at: int, age: StoreAge, records: Mapping[str, AccessRecord]) -> None:
        """Agree with what one store was found to have, of all namespaces, when it was so old."""
        held = records.get(name_key(self._namespace))
        version = 0 if held is None else held.version
        if held is not None and version > self._version:
            self._version, self.rules = version, held.rules
            # Those that were looked at before are behind.
            self._agreed = [NEVER] * len(self._agreed)
            self._agreed[at] = age
        elif version < self._version:
            await self._put(at)
        else:
            self._agreed[at] = age

    async def _put(self, at: int) -> None:
        store, age = self._records.stores[at], age_of(self._records.stores[at])
        await store.put_access(AccessRecord(self._namespace, self._version, self.rules))
        self._agreed[at] = age


async def agree(several: Sequence[NamespaceAccess], stores: Sequence[Store]) -> None:
    """Let namespaces agree with the stores; each store that may differ is read once for all."""
    for at, store in enumerate(stores):
        behind = [each for each in several if each.is_behind(at)] if store.is_online else []
        if not behind:
            continue
        try:
            age = age_of(store)
            held = {name_key(each.namespace): each for each in await store.access()}
            for each in behind:
                await each.bring_up(at, age, held)
        except BusError as error:
            _log.warning("bringing store %d up to date was cut short: %s", at, error)
