"""The namespaces of a broker: each has its own entities and keys, all lie in the same stores.

Some are configured. Others are made while brokers run (`create_namespace`), and are records as
entities are: every store has them, and whoever shares the stores serves them.
"""

from collections.abc import Sequence
from dataclasses import replace

from bendybus.broker.catalog import Catalog
from bendybus.broker.hints import Hints
from bendybus.broker.holdings import Holdings
from bendybus.broker.namespace_access import agree
from bendybus.broker.records import Records
from bendybus.model.access import AccessRule
from bendybus.model.content_reader import ContentReader
from bendybus.model.entity import name_key
from bendybus.model.errors import EntityNotFound, StartRefused
from bendybus.model.ids import EntityNumber
from bendybus.model.namespace import Namespace
from bendybus.model.tier import Tier
from bendybus.store.port import NAMESPACES, EntityRecord, Store


class Namespaces:
    """All namespaces, the default one first."""

    def __init__(self, stores: Sequence[Store], reader: ContentReader) -> None:
        self.records = Records(stores)
        self.holdings = Holdings(stores)
        self.catalogs: list[Catalog] = []
        self.hints = Hints(self.catalogs, self.holdings, self.records.following)
        self._reader = reader
        self._by_name: dict[str, Catalog] = {}
        # Those that were made in use, by the numbers of their records.
        self._made: dict[EntityNumber, Catalog] = {}
        self.records.served_by[NAMESPACES] = self
        self.records.following.agreeing.append(self._agree_access)

    def add(
        self,
        name: str,
        access_rules: tuple[AccessRule, ...] = (),
        tier: Tier = Tier(),  # noqa: B008 - it is frozen
    ) -> Catalog:
        """Add a configured namespace; the first one is the default. Before `load`."""
        return self._serve(
            Catalog(name, self.records, self.holdings, self._reader, access_rules, tier)
        )

    @property
    def default(self) -> Catalog:
        """The namespace of clients that name none."""
        return self.catalogs[0]

    @property
    def configured(self) -> list[Catalog]:
        """Those that the settings name, the default one first."""
        return self.catalogs[: len(self.catalogs) - len(self._made)]

    def has(self, name: str) -> bool:
        """Whether there is a namespace of that name, whatever the case."""
        return name_key(name) in self._by_name

    def named(self, name: str) -> Catalog:
        """Return a namespace, whatever the case of its name. Raises `EntityNotFound`."""
        found = self._by_name.get(name_key(name))
        if found is None:
            raise EntityNotFound(f"There is no namespace '{name}' here.")
        return found

    def record_of(self, catalog: Catalog) -> EntityRecord | None:
        """Return the record of a namespace that was made in use; None of a configured one."""
        for number, made in self._made.items():
            if made is catalog:
                return self.records.by_number[number]
        return None

    async def load(self) -> None:
        """Read the records of every store that is there, and serve what they say."""
        self.records.served_by[""] = self.default
        await self.records.agree()
        await self._agree_access()
        await self._adopt()
        for record in self.records.by_number.values():
            if (
                not record.is_removed
                and name_key(record.namespace) not in self.records.served_by
                and not self.records.is_left_behind(record)
            ):
                raise StartRefused(
                    f"the stores hold '{record.name}' of the namespace '{record.namespace}', which"
                    " is not configured; name it in the configuration, or choose another data"
                    " folder with --data"
                )
        self.records.is_loaded = True

    async def keep_agreeing(self) -> None:
        """Bring stores that come back up to date, and follow other front ends, until cancelled."""
        await self.records.following.run()

    def take_over(self, record: EntityRecord) -> None:
        """Serve a namespace that was made in use as it stands now, or no longer."""
        namespace = record.entity
        assert isinstance(namespace, Namespace), "others are kept with their namespace"
        known = self._made.get(record.number)
        if record.is_removed:
            if known is not None:
                self._end(record.number, known)
        elif known is not None:
            known.tier = namespace.tier
        else:
            self._begin(record, namespace)

    def _begin(self, record: EntityRecord, namespace: Namespace) -> None:
        for number, made in list(self._made.items()):
            # It is gone, and another has its name; that was learnt in one look, this first.
            if name_key(made.namespace) == name_key(namespace.name):
                self._end(number, made)
        if self.has(namespace.name):
            raise StartRefused(
                f"the namespace '{namespace.name}' was created with `bendybus namespace create`,"
                " and is in the configuration too; take it out of the file, or start without it"
                " there and delete it with `bendybus namespace delete`"
            )
        self._made[record.number] = self._serve(
            Catalog(
                namespace.name,
                self.records,
                self.holdings,
                self._reader,
                tier=namespace.tier,
                key=record.key,
            )
        )

    def _serve(self, catalog: Catalog) -> Catalog:
        self.catalogs.append(catalog)
        self._by_name[name_key(catalog.namespace)] = catalog
        return catalog

    def _end(self, number: EntityNumber, catalog: Catalog) -> None:
        del self._made[number]
        del self._by_name[name_key(catalog.namespace)]
        self.catalogs.remove(catalog)
        catalog.end()

    async def _agree_access(self) -> None:
        await agree([each.access for each in self.catalogs], self.records.stores)

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
