"""Which namespace a client means, by the host that it addresses."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.broker.namespaces import Namespaces
from bendybus.model.errors import EntityNotFound
from bendybus.model.hosts import host_alone, names_nothing


class ServedNamespace(NamedTuple):
    """A namespace as clients get it: what it has, and who they are there."""

    catalog: Catalog
    authentication: Authentication


class Hosts:
    """The namespaces that are served, by host names; those that come and go as they do.

    A namespace answers to its name, alone or as the first part of a longer host name. The first
    one is the default: it answers to `localhost` and to addresses, which name nobody, and, while
    no other is configured, to every name that is not another's. So whoever reaches it by a name of
    the machine still does when somebody creates a namespace.
    """

    def __init__(
        self, namespaces: Namespaces, authenticate: Callable[[Catalog], Authentication]
    ) -> None:
        self._namespaces = namespaces
        self._authenticate = authenticate
        self._served: dict[Catalog, ServedNamespace] = {}
        self.default = self._serve(namespaces.default)

    def of(self, host: str | None) -> ServedNamespace:
        """Return the namespace that is meant by a host, with or without a port.

        Raises `EntityNotFound` where a guess could lead to another one than was meant.
        """
        if len(self._namespaces.catalogs) == 1:
            return self.default
        alone = host_alone(host or "")
        for name in _names_in(alone):
            if self._namespaces.has(name):
                return self._serve(self._namespaces.named(name))
        configured = self._namespaces.configured
        if len(configured) == 1 or names_nothing(alone):
            return self.default
        names = ", ".join(each.namespace for each in configured)
        raise EntityNotFound(
            f"There is no namespace for the host '{alone}' here; connect to a host whose name"
            f" begins with that of a namespace, such as {names}."
        )

    def _serve(self, catalog: Catalog) -> ServedNamespace:
        served = self._served.get(catalog)
        if served is None:
            kept = self._served.items()
            self._served = {each: found for each, found in kept if not each.is_gone}
            served = ServedNamespace(catalog, self._authenticate(catalog))
            self._served[catalog] = served
        return served


def _names_in(host: str) -> Iterator[str]:
    """Yield what a host name begins with, the longest first: `a.b.c`, `a.b`, `a`."""
    while host:
        yield host
        host = host.rpartition(".")[0]
