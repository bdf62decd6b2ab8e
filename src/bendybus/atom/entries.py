"""Entries and feeds: the envelope of descriptions, and pages of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs, urlsplit

from bendybus.atom.properties import Kind
from bendybus.atom.values import write_date_time
from bendybus.atom.xml_reading import ANSWER, REQUEST, Bounds, Element, parse
from bendybus.atom.xml_writing import ATOM, SCHEMA_INSTANCE, SERVICE_BUS, escape, text_element
from bendybus.model.errors import ArgumentInvalid

ENTRY_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"
FEED_TYPE: Final = "application/atom+xml;type=feed;charset=utf-8"

_KINDS: Final = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What an entry says of what it describes: where it is, its name, whose it is, since when.

    The JavaScript client takes names from the address, the Python client from the title.
    """

    address: str
    title: str
    author: str
    published: datetime | None
    updated: datetime | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as read. A request's has no title."""

    title: str
    kind: Kind
    description: Element


@dataclass(frozen=True, slots=True)
class Feed:
    """A page as read, and how many to skip in order to get the next; None on the last one."""

    entries: tuple[Entry, ...]
    next_skip: int | None


def write_entry(envelope: Envelope, kind: Kind, content: str) -> str:
    """Write an entry of its own, as an answer has it."""
    return _entry(envelope, kind, content, f' xmlns="{ATOM}"')


def write_feed(
    envelope: Envelope, entries: Sequence[tuple[Envelope, str]], kind: Kind, next_page: str | None
) -> str:
    """Write a page of entries.

    `next_page` is where the next one is. The Python client takes the second link for it, so there
    is none on the last.
    """
    following = "" if next_page is None else f'<link rel="next" href="{escape(next_page)}" />'
    return (
        f'<feed xmlns="{ATOM}"><title type="text">{escape(envelope.title)}</title>'
        f"{text_element('id', envelope.address)}"
        f"{text_element('updated', write_date_time(envelope.updated))}"
        f'<link rel="self" href="{escape(envelope.address)}" />{following}'
        f"{''.join(_entry(each, kind, content, '') for each, content in entries)}</feed>"
    )


def write_request_entry(kind: Kind, content: str) -> str:
    """Write an entry as a client sends it."""
    return f'<entry xmlns="{ATOM}">{_content(kind, content)}</entry>'


def read_entry(document: bytes, bounds: Bounds = REQUEST) -> Entry:
    """Read an entry. Raises `ArgumentInvalid`."""
    root = parse(document, bounds)
    if root.name != "entry":
        raise ArgumentInvalid(f"The body must be an ATOM entry, not <{root.name[:50]}>.")
    return _read_entry(root)


def read_found(document: bytes, bounds: Bounds = ANSWER) -> Entry | None:
    """Read the answer to a request for one thing; None if it is not there.

    Where nothing is, the service answers as to a list: with a feed that is empty.
    """
    root = parse(document, bounds)
    if root.name == "feed" and root.find("entry") is None:
        return None
    return _read_entry(root)


def read_feed(document: bytes, bounds: Bounds = ANSWER) -> Feed:
    """Read a page. Raises `ArgumentInvalid`."""
    root = parse(document, bounds)
    if root.name != "feed":
        raise ArgumentInvalid(f"The body must be an ATOM feed, not <{root.name[:50]}>.")
    following = [
        link.attributes.get("href", "")
        for link in root.find_all("link")
        if link.attributes.get("rel") == "next"
    ]
    return Feed(
        tuple([_read_entry(each) for each in root.find_all("entry")]),
        _skip(following[0]) if following else None,
    )


def read_error(document: bytes) -> str | None:
    """Return what the body of a refusal says; None if it is none of the service's."""
    try:
        root = parse(document)
    except ArgumentInvalid:
        return None
    return root.text_of("Detail") if root.name == "Error" else None


def _entry(envelope: Envelope, kind: Kind, content: str, namespace: str) -> str:
    return (
        f"<entry{namespace}>{text_element('id', envelope.address)}"
        f'<title type="text">{escape(envelope.title)}</title>'
        f"{text_element('published', write_date_time(envelope.published))}"
        f"{text_element('updated', write_date_time(envelope.updated))}"
        f"<author>{text_element('name', envelope.author)}</author>"
        f'<link rel="self" href="{escape(envelope.address)}" />{_content(kind, content)}</entry>'
    )


def _content(kind: Kind, content: str) -> str:
    return (
        f'<content type="application/xml"><{kind.value} xmlns="{SERVICE_BUS}"'
        f' xmlns:i="{SCHEMA_INSTANCE}">{content}</{kind.value}></content>'
    )


def _read_entry(entry: Element) -> Entry:
    content = entry.find("content")
    descriptions = [] if content is None else content.children
    if len(descriptions) != 1 or descriptions[0].name not in _KINDS:
        raise ArgumentInvalid(
            f"The entry must have content with one of {', '.join(_KINDS)}; see the management API"
        )
    title = (entry.text_of("title") or "").strip()
    return Entry(title, _KINDS[descriptions[0].name], descriptions[0])


def _skip(address: str) -> int | None:
    values = parse_qs(urlsplit(address).query).get("$skip", [])
    return int(values[0]) if values and values[0].isdecimal() else None
