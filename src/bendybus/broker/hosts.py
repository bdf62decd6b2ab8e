"""Which namespace a client means, by the host that it addresses."""

from collections.abc import Sequence
from typing import NamedTuple

from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.model.errors import EntityNotFound
from bendybus.model.hosts import host_alone, is_host_of, names_nothing


class ServedNamespace(NamedTuple):
    """A namespace as clients get it: what it has, and who they are there."""

    catalog: Catalog
    authentication: Authentication


class Hosts:
    """The namespaces that are served, by host names.

    A namespace answers to its name, alone or as the first part of a longer host name. The first
    one is the default: it answers to `localhost` and to addresses, which name nobody, and, while
    it is the only one, to every name.
    """

    def __init__(self, served: Sequence[ServedNamespace]) -> None:
        self._served = served

    @property
    def default(self) -> ServedNamespace:
        """The namespace of clients that name none."""
        return self._served[0]

    def of(self, host: str | None) -> ServedNamespace:
        """Return the namespace that is meant by a host, with or without a port.

        Raises `EntityNotFound` where a guess could lead to another one than was meant.
        """
        alone = host_alone(host or "")
        if len(self._served) == 1 or names_nothing(alone):
            return self.default
        found = [each for each in self._served if is_host_of(alone, each.catalog.namespace)]
        if not found:
            names = ", ".join(each.catalog.namespace for each in self._served)
            raise EntityNotFound(
                f"There is no namespace for the host '{alone}' here; connect to a host whose name"
                f" begins with one of {names}."
            )
        return max(found, key=lambda each: len(each.catalog.namespace))
