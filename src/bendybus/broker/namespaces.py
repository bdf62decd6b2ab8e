"""The namespaces of a broker: each has its own entities and keys, all lie in the same stores."""

from collections.abc import Sequence
from dataclasses import replace

from bendybus.broker.catalog import Catalog
from bendybus.broker.hints import Hints
from bendybus.broker.holdings import Holdings
from bendybus.broker.records import Records
from bendybus.model.access import AccessRule
from bendybus.model.content_reader import ContentReader
from bendybus.model.entity import name_key
from bendybus.model.errors import StartRefused
from bendybus.model.tier import Tier
from bendybus.store.port import EntityRecord, Store


class Namespaces:
    """All namespaces, the default one first."""

    def __init__(self, stores: Sequence[Store], reader: ContentReader) -> None:
        self.records = Records(stores)
        self.holdings = Holdings(stores)
        self.catalogs: list[Catalog] = []
        self.hints = Hints(self.catalogs, self.holdings, self.records.following)
        self._reader = reader

    def add(
        self,
        name: str,
        access_rules: tuple[AccessRule, ...] = (),
        tier: Tier = Tier(),  # noqa: B008 - it is frozen
    ) -> Catalog:
        """Add a namespace; the first one is the default. Before `load`."""
        catalog = Catalog(name, self.records, self.holdings, self._reader, access_rules, tier)
        self.catalogs.append(catalog)
        return catalog

    @property
    def default(self) -> Catalog:
        """The namespace of clients that name none."""
        return self.catalogs[0]

    async def load(self) -> None:
        """Read the records of every store that is there, and serve what they say."""
        self.records.served_by[""] = self.default
        await self.records.agree()
        await self._adopt()
        for record in self.records.by_number.values():
            if not record.is_removed and name_key(record.namespace) not in self.records.served_by:
                raise StartRefused(
                    f"the stores hold '{record.name}' of the namespace '{record.namespace}', which"
                    " is not configured; name it in the configuration, or choose another data"
                    " folder with --data"
                )
        self.records.is_loaded = True

    async def keep_agreeing(self) -> None:
        """Bring stores that come back up to date, and follow other front ends, until cancelled."""
        await self.records.following.run()

    async def _adopt(self) -> None:
        """Let the default namespace have the entities from a time when there was only one."""

        async def adopt() -> None:
            named = [
                replace(each, namespace=self.default.namespace, version=each.version + 1)
                for each in self._orphans()
            ]
            if named:
                await self.records.write(named)

        if self._orphans() and self.records.is_whole:
            await self.records.in_turn(adopt)

    def _orphans(self) -> list[EntityRecord]:
        return [each for each in self.records.by_number.values() if not each.namespace]
