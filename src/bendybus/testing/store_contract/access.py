"""Access rules of namespaces: kept whole, and never replaced by older ones."""
# ruff: noqa: D102 - the name of a test is its sentence

from typing import Final

from bendybus.model.access import AccessRule, Right
from bendybus.model.ids import Instant
from bendybus.store.port import AccessRecord, Store
from bendybus.testing.store_contract.subject import StoreSubject, promise

_RULES: Final = (
    AccessRule("root", "a key", frozenset(Right), "another", Instant(1), Instant(2), "digest"),
    AccessRule("sender", "ä key", frozenset({Right.SEND})),
)


class AccessContract(StoreSubject):
    """Promise 1, for what is not messages."""

    @promise(1)
    async def test_access_rules_are_there_as_they_were_put(self, store: Store) -> None:
        ours, theirs = AccessRecord("ours", 1, _RULES), AccessRecord("theirs", 7, ())
        await store.put_access(ours)
        await store.put_access(theirs)
        await store.take_offline("a drill")
        await store.bring_online()

        held = {record.namespace: record for record in await store.access()}

        assert held == {"ours": ours, "theirs": theirs}
        [root, _] = held["ours"].rules
        assert (root.created_at, root.modified_at) == (1, 2)

    @promise(1)
    async def test_newer_access_rules_replace_older_ones_and_not_the_other_way(
        self, store: Store
    ) -> None:
        await store.put_access(AccessRecord("ours", 2, _RULES))
        await store.put_access(AccessRecord("ours", 1, ()))
        assert await store.access() == [AccessRecord("ours", 2, _RULES)]

        await store.put_access(AccessRecord("OURS", 3, ()))
        [held] = await store.access()
        assert (held.version, held.rules) == (3, ())
