"""The report of `stats` as a page."""

from collections.abc import Mapping
from typing import Any

from bendybus.pipelines.plots import Series, bars, columns, plain
from bendybus.pipelines.report_page import Section, cards, note, page, table


def stats_page(found: Mapping[str, Any]) -> str:
    """Write what was measured as HTML."""
    under = f"as of {found['as_of']}"
    if not found["messages"]:
        return page(f"{found['entity']}: no messages", under, [])
    sections = [
        Section("At a glance", [_glance(found)]),
        Section("When they were enqueued", _times(found["rate"])),
        Section("How large their bodies are", _sizes(found)),
        Section("How long they have waited", [_distributed("seconds", found["age_seconds"])]),
        Section("How evenly they lie", _skew(found["skew"])),
        Section("Hot keys", _keys(found["keys"])),
        Section("Sessions", _sessions(found["sessions"])),
        Section("Message ids that are there more than once", _duplicates(found["duplicates"])),
    ]
    return page(f"Messages of {found['entity']}", under, sections)


def _glance(found: Mapping[str, Any]) -> str:
    values = [
        ("messages", plain(found["messages"])),
        ("bytes of bodies", plain(found["bytes"])),
        ("a second, mean", plain(found["rate"]["per_second_mean"])),
        ("a second, most", plain(found["rate"]["per_second_most"])),
        ("oldest (s)", plain(found["age_seconds"]["max"])),
        ("most to mean", plain(found["skew"]["most_to_mean"])),
        ("sessions", plain(found["sessions"]["sessions"])),
        ("doubled ids", plain(found["duplicates"]["ids"])),
    ]
    return cards(values + [(state, plain(count)) for state, count in found["states"].items()])


def _times(rate: Mapping[str, Any]) -> list[str]:
    buckets = rate["buckets"]
    labels = [each["from"][:19].replace("T", " ") for each in buckets]
    counts = Series("messages", [each["messages"] for each in buckets])
    title = f"messages in each {rate['bucket_seconds']} seconds"
    return [note(title), columns(labels, [counts], title=title)]


def _sizes(found: Mapping[str, Any]) -> list[str]:
    labels = [f"≤ {plain(each['up_to_bytes'])}" for each in found["sizes"]]
    counts = Series("messages", [each["messages"] for each in found["sizes"]])
    return [
        columns(labels, [counts], title="messages by the size of their bodies"),
        _distributed("bytes", found["body_bytes"]),
    ]


def _skew(skew: Mapping[str, Any]) -> list[str]:
    rows = [
        (f"fragment {each['fragment']}", each["messages"], plain(each["messages"]))
        for each in skew["fragments"]
    ]
    text = f"the fullest has {plain(skew['most_to_mean'])} times the mean; Gini {skew['gini']:.3f}"
    return [note(text), bars(rows, title="messages of each fragment")]


def _keys(keys: Mapping[str, Any]) -> list[str]:
    rows = [
        (each["key"], each["messages"], f"{plain(each['messages'])} ({each['share']:.1%})")
        for each in keys["hottest"]
    ]
    text = f"{plain(keys['keys'])} keys of {plain(keys['messages_with_key'])} messages"
    return [note(text), bars(rows, title="messages of the hottest keys")] if rows else []


def _sessions(sessions: Mapping[str, Any]) -> list[str]:
    rows = [[each["session_id"], each["messages"], each["seconds"]] for each in sessions["longest"]]
    if not rows:
        return []
    return [
        _distributed("messages", sessions["messages_per_session"]),
        table(["session", "messages", "seconds from first to last"], rows),
    ]


def _duplicates(duplicates: Mapping[str, Any]) -> list[str]:
    rows = [[each["message_id"], each["messages"]] for each in duplicates["most"]]
    if not rows:
        return []
    text = f"{plain(duplicates['extra_messages'])} messages too many"
    return [note(text), table(["message id", "messages"], rows)]


def _distributed(what: str, values: Mapping[str, float]) -> str:
    return table(["", *values], [[what, *(float(each) for each in values.values())]])
