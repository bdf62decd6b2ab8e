"""Entities of a namespace: shown, made, changed and deleted. Of this broker, or any Service Bus.

Properties go by the names of the model and are not checked here: another namespace may allow what
this broker does not. Whoever answers decides.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bendybus.atom.descriptions import Facts, read_facts
from bendybus.atom.entries import (
    ENTRY_TYPE,
    Entry,
    read_entry,
    read_feed,
    read_found,
    write_request_entry,
)
from bendybus.atom.namespaces import NamespaceDescription, read_namespace
from bendybus.atom.properties import Kind, read_properties, write_properties
from bendybus.atom.rules import read_rule, write_default_rule, write_rule
from bendybus.atom.xml_reading import ANSWER
from bendybus.client.errors import ClientError, EntityNotFound
from bendybus.client.management_http import TIMEOUT_SECONDS, ManagementHttp, management_url
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.errors import BusError
from bendybus.model.rule import Rule

# The one that every client of today and this broker know.
API_VERSION: Final = "2021-05"
PAGE_COUNT: Final = 100


@dataclass(frozen=True, slots=True)
class Described:
    """An entity as the namespace describes it."""

    name: str
    kind: Kind
    # By the names of the model. The size of a partitioned one is that of all its fragments.
    properties: Mapping[str, Any]
    facts: Facts


class Administration:
    """The management API of one namespace. Every call is a request of its own."""

    def __init__(self, http: ManagementHttp) -> None:
        self.http = http

    @classmethod
    def from_connection_string(
        cls,
        text: str,
        url: str | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        seconds_max: float = TIMEOUT_SECONDS,
    ) -> "Administration":
        """Find the namespace by its connection string, or by its address where one is given."""
        connection = parse_connection_string(text)
        return cls(ManagementHttp(management_url(connection, url), connection, tls, seconds_max))

    def namespace(self) -> NamespaceDescription:
        """Describe the namespace."""
        return read_namespace(self._get("$namespaceinfo").description)

    def list(self, kind: Kind, topic: str | None = None) -> Iterator[Described]:
        """Return every queue, every topic, or every subscription of a topic."""
        places = {Kind.QUEUE: "$Resources/queues", Kind.TOPIC: "$Resources/topics"}
        for entry in self._pages(places.get(kind) or f"{_quoted(topic)}/subscriptions"):
            yield _described(entry)

    def show(self, kind: Kind, name: str, topic: str | None = None) -> Described:
        """Describe a queue or a topic, or a subscription of a topic. Raises `EntityNotFound`."""
        shown = _described(self._get(_path(name, topic)))
        if shown.kind is not kind:
            wanted, found = (_word(each) for each in (kind, shown.kind))
            raise EntityNotFound(f"'{name}' is a {found}, not a {wanted}")
        return shown

    def create(
        self,
        kind: Kind,
        name: str,
        properties: Mapping[str, Any],
        *,
        topic: str | None = None,
        rule: Rule | None = None,
    ) -> Described:
        """Make an entity; of a subscription, `rule` is its first one. Raises `EntityExists`."""
        first = ""
        if rule is not None:
            first = write_default_rule(rule)
        return self._put(kind, name, topic, write_properties(kind, properties, first), {})

    def update(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, topic: str | None = None
    ) -> Described:
        """Change what is named, leave the rest as it is. Raises `EntityNotFound`."""
        shown = self.show(kind, name, topic)
        content = write_properties(kind, {**shown.properties, **changes})
        return self._put(kind, name, topic, content, {"If-Match": "*"})

    def delete(self, name: str, topic: str | None = None) -> None:
        """Delete an entity with all that it holds. Raises `EntityNotFound`."""
        self._ask("DELETE", _path(name, topic))

    def rules(self, topic: str, subscription: str) -> Iterator[Rule]:
        """Return every rule of a subscription."""
        for entry in self._pages(f"{_path(subscription, topic)}/rules"):
            yield read_rule(entry.description, entry.title)

    def show_rule(self, topic: str, subscription: str, name: str) -> Rule:
        """Return a rule. Raises `EntityNotFound`."""
        entry = self._get(_rule_path(topic, subscription, name))
        return read_rule(entry.description, entry.title or name)

    def put_rule(self, topic: str, subscription: str, rule: Rule, *, is_new: bool) -> Rule:
        """Make a rule, or change the one of that name."""
        path = _rule_path(topic, subscription, rule.name)
        body = write_request_entry(Kind.RULE, write_rule(rule))
        headers = {} if is_new else {"If-Match": "*"}
        answer = self._ask("PUT", path, body, headers)
        return read_rule(_entry(answer).description, rule.name)

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        """Delete a rule."""
        self._ask("DELETE", _rule_path(topic, subscription, name))

    def ask_json(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask for what only this broker has: stores, access rules. Returns the JSON, or None."""
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if sent else {}
        answer = self.http.exchange(method, path, body=sent, headers=headers)
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            raise ClientError(f"{self.http.url} answers, but not as Bendybus does") from None

    def _put(
        self, kind: Kind, name: str, topic: str | None, content: str, headers: dict[str, str]
    ) -> Described:
        body = write_request_entry(kind, content)
        answer = self._ask("PUT", _path(name, topic), body, headers)
        return _described(_entry(answer))

    def _get(self, path: str) -> Entry:
        try:
            found = read_found(self._ask("GET", path))
        except BusError as error:
            raise _not_understood(self.http.url, error) from None
        if found is None:
            raise EntityNotFound(f"There is no '{path}'.")
        return found

    def _pages(self, path: str) -> Iterator[Entry]:
        skip: int | None = 0
        while skip is not None:
            try:
                feed = read_feed(self._ask("GET", path, query=f"&$skip={skip}&$top={PAGE_COUNT}"))
            except BusError as error:
                raise _not_understood(self.http.url, error) from None
            yield from feed.entries
            # A page that leads back would be read for ever.
            skip = feed.next_skip if feed.entries and (feed.next_skip or 0) > skip else None

    def _ask(
        self,
        method: str,
        path: str,
        body: str = "",
        headers: dict[str, str] | None = None,
        query: str = "",
    ) -> bytes:
        sent = dict(headers or {})
        if body:
            sent["Content-Type"] = ENTRY_TYPE
        target = f"/{path}?api-version={API_VERSION}{query}"
        return self.http.exchange(method, target, body=body.encode(), headers=sent).body


def _entry(answer: bytes) -> Entry:
    try:
        return read_entry(answer, ANSWER)
    except BusError as error:
        raise _not_understood("the namespace", error) from None


def _not_understood(who: str, error: BusError) -> ClientError:
    return ClientError(f"{who} answers, but not as a Service Bus does: {error}")


def _described(entry: Entry) -> Described:
    try:
        properties = read_properties(entry.description, entry.kind)
        return Described(entry.title, entry.kind, properties, read_facts(entry.description))
    except BusError as error:
        raise _not_understood("the namespace", error) from None


def _word(kind: Kind) -> str:
    return kind.value.removesuffix("Description").lower()


def _path(name: str, topic: str | None) -> str:
    return _quoted(name) if topic is None else f"{_quoted(topic)}/subscriptions/{_quoted(name)}"


def _rule_path(topic: str, subscription: str, name: str) -> str:
    return f"{_path(subscription, topic)}/rules/{quote(name, safe='$')}"


def _quoted(name: str | None) -> str:
    return quote(name or "", safe="/$")
