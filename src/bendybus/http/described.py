"""What the broker says of entities, as entries and feeds."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from bendybus.atom.descriptions import KINDS, Facts, MessageCounts, write_description
from bendybus.atom.entries import ENTRY_TYPE, FEED_TYPE, Envelope, write_entry, write_feed
from bendybus.atom.namespaces import NamespaceDescription, write_namespace
from bendybus.atom.properties import Kind
from bendybus.atom.rules import write_rule
from bendybus.broker.catalog import Catalog
from bendybus.broker.describe import Description
from bendybus.broker.served_topic import ServedTopic
from bendybus.http.api_version import ApiVersion
from bendybus.http.entity_path import EntityPath
from bendybus.http.paging import Page
from bendybus.model.entity import Topic
from bendybus.model.ids import Instant
from bendybus.model.rule import CorrelationFilter, Rule, SqlFilter
from bendybus.store.port import EntityRecord

_HOST: Final = re.compile(r"[A-Za-z0-9.\-_]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")

Named = tuple[Envelope, str]


class Answers:
    """Writes the answers to one request."""

    def __init__(
        self, request: Request, path: EntityPath, version: ApiVersion, catalog: Catalog
    ) -> None:
        self._path = path
        self._version = version
        self._catalog = catalog
        host = request.headers.get("host", "")
        self._host = host if _HOST.fullmatch(host) else catalog.namespace
        self._base = f"{request.url.scheme}://{self._host}/"

    def entity(self, description: Description, *, status: int = 200) -> Response:
        """Answer with one entity."""
        record = description.record
        envelope = self._envelope(self._path.spelling, record.entity.name, record)
        kind = KINDS[type(record.messaging_entity)]
        entry = write_entry(envelope, kind, self._description(description))
        return _response(entry, ENTRY_TYPE, status, etag=etag_of(record))

    def entities(self, descriptions: Sequence[Description], kind: Kind, page: Page) -> Response:
        """Answer with a page of entities."""
        entries = [
            (self._listed(each.record.entity.name, each.record), self._description(each))
            for each in descriptions
        ]
        return self._feed(entries, kind, page)

    def rule(self, rule: Rule, record: EntityRecord, *, status: int = 200) -> Response:
        """Answer with one rule of a subscription."""
        envelope = self._envelope(self._path.spelling, rule.name, record)
        entry = write_entry(envelope, Kind.RULE, _rule(rule, record))
        return _response(entry, ENTRY_TYPE, status, etag=etag_of(record))

    def rules(self, rules: Sequence[Rule], record: EntityRecord, page: Page) -> Response:
        """Answer with a page of rules."""
        entries = [(self._listed(rule.name, record), _rule(rule, record)) for rule in rules]
        return self._feed(entries, Kind.RULE, page)

    def namespace(self, info: NamespaceDescription) -> Response:
        """Answer with the namespace."""
        envelope = Envelope(
            address=self._address(self._path.spelling),
            title=info.name,
            author=info.name,
            published=info.created_at,
            updated=info.modified_at,
        )
        entry = write_entry(envelope, Kind.NAMESPACE, write_namespace(info))
        return _response(entry, ENTRY_TYPE, 200)

    def _feed(self, entries: Sequence[Named], kind: Kind, page: Page) -> Response:
        updated = [envelope.updated for envelope, _ in entries if envelope.updated is not None]
        envelope = Envelope(
            address=self._address(self._path.spelling),
            title=self._path.spelling.rpartition("/")[2],
            author=self._catalog.namespace,
            published=None,
            updated=max(updated, default=None),
        )
        following = None
        if page.has_more:
            query = f"$skip={page.skip + page.top}&$top={page.top}"
            following = self._address(self._path.spelling, query)
        return _response(write_feed(envelope, entries, kind, following), FEED_TYPE, 200)

    def _listed(self, name: str, record: EntityRecord) -> Envelope:
        """Return the envelope of an entry in a list, spelled as the client spelled the list."""
        return self._envelope(f"{self._path.entries_at}{name}", name, record)

    def _envelope(self, spelling: str, title: str, record: EntityRecord) -> Envelope:
        return Envelope(
            address=self._address(spelling),
            title=title,
            author=self._catalog.namespace,
            published=_time(record.created_at),
            updated=_time(record.updated_at),
        )

    def _address(self, spelling: str, query: str = "") -> str:
        version = f"api-version={self._version.text}" if self._version.text else ""
        whole = "&".join(part for part in (query, version) if part)
        return f"{self._base}{quote(spelling, safe='/$')}{'?' if whole else ''}{whole}"

    def _description(self, description: Description) -> str:
        return write_description(
            description.record.messaging_entity,
            self._facts(description),
            host=self._host,
            omitted=self._version.omitted,
        )

    def _facts(self, description: Description) -> Facts:
        record, counts = description.record, description.counts
        return Facts(
            created_at=_time(record.created_at),
            updated_at=_time(record.updated_at),
            accessed_at=_time(description.accessed_at),
            size_bytes=counts.bytes,
            message_count=counts.messages,
            counts=MessageCounts(
                active=counts.active,
                dead_letter=counts.dead_letter,
                scheduled=counts.scheduled,
                transfer=counts.transfer,
                transfer_dead_letter=counts.transfer_dead_letter,
            ),
            is_available=not description.is_limited,
            subscription_count=description.subscription_count,
            **self._filter_counts(record),
        )

    def _filter_counts(self, record: EntityRecord) -> dict[str, int]:
        """Count the filters of a topic, for clients that want to know."""
        if "SqlFilterCount" in self._version.omitted or not isinstance(record.entity, Topic):
            return {}
        # It may have been deleted while it was counted.
        topic = self._catalog.queue(record.name) if self._catalog.has(record.name) else None
        if not isinstance(topic, ServedTopic):
            return {}
        counts = [each.filter_counts for each in topic.subscriptions]
        return {
            "sql_filter_count": sum(each[SqlFilter] for each in counts),
            "correlation_filter_count": sum(each[CorrelationFilter] for each in counts),
        }


def etag_of(record: EntityRecord) -> str:
    """Return what changes whenever the entity does."""
    return f'"{record.version}"'


def moment(at: Instant) -> datetime:
    """Return an instant as a time of the calendar."""
    return datetime.fromtimestamp(at / 1000, UTC)


def _rule(rule: Rule, record: EntityRecord) -> str:
    return write_rule(rule, _time(rule.created_at or record.created_at))


def _time(at: Instant | None) -> datetime | None:
    """Return a time; what came into the catalog before times were kept has none."""
    return moment(at) if at else None


def _response(document: str, media_type: str, status: int, *, etag: str | None = None) -> Response:
    # Descriptions hold keys, which are not for caches on the way.
    headers = {"Cache-Control": "no-store"} | ({} if etag is None else {"ETag": etag})
    return Response(document, status, headers, media_type=media_type)
