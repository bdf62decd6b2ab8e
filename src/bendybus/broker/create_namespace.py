"""create a namespace: with a key of its own, for every front end and over restarts (R7.1)."""

from typing import Final

from bendybus.broker.access_keys import new_key
from bendybus.broker.catalog import Catalog
from bendybus.broker.namespace_access import NamespaceAccess
from bendybus.broker.namespaces import Namespaces
from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import ROOT_RULE_NAME, completed
from bendybus.model.errors import EntityExists, QuotaExceeded
from bendybus.model.ids import Instant
from bendybus.model.namespace import Namespace, check_new_namespace_name
from bendybus.model.tier import Tier
from bendybus.store.port import NAMESPACES

# Beside those that are configured.
NAMESPACES_MAX: Final = 100


async def create_namespace(
    namespaces: Namespaces, name: str, tier: Tier, *, now: Instant
) -> Catalog:
    """Create a namespace in every store and serve it, with one access rule, which can do all.

    Raises `ArgumentInvalid`, `EntityExists`, `QuotaExceeded`, `StoreUnavailable`. Then nothing was
    made.
    """
    check_new_namespace_name(name)

    async def make() -> Catalog:
        _check_free(namespaces, name)
        numbering = await namespaces.records.numbering()
        record = numbering.new_record(NAMESPACES, Namespace(name, tier=tier), now=now)
        root = AccessRule(ROOT_RULE_NAME, None, frozenset(Right))
        # First the key: whoever finds the namespace finds it, also if this is cut short between. A
        # number that was not used may be given again; then these rules are newer than those.
        access = NamespaceAccess(record.key, namespaces.records)
        await access.agree()
        await access.write(completed([root], (), make_key=new_key, now=now))
        await namespaces.records.write([record])
        made = namespaces.named(name)
        await made.access.agree()
        return made

    return await namespaces.records.in_turn(make)


def _check_free(namespaces: Namespaces, name: str) -> None:
    if namespaces.has(name):
        raise EntityExists(f"The namespace '{name}' already exists.")
    if len(namespaces.catalogs) - len(namespaces.configured) >= NAMESPACES_MAX:
        raise QuotaExceeded(
            f"A broker can have at most {NAMESPACES_MAX} namespaces beside those of its"
            " configuration; delete some."
        )
