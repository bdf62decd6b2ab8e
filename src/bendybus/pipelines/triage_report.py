"""What a triage found and did, for people: a page, and lines for a terminal."""

from collections.abc import Mapping
from typing import Any, Final

from bendybus.pipelines.plots import COLOURS, Series, columns, plain, shortened
from bendybus.pipelines.report_page import Section, cards, note, page, table

_SHOWN: Final = 20
_TEXT_WIDTH: Final = 60


def triage_page(entity: str, found: Mapping[str, Any]) -> str:
    """Write it as HTML."""
    what = "the namespace" if entity == "*" else entity
    title = f"Dead letters of {what}"
    groups = found["groups"]
    sections = [
        Section("At a glance", [_glance(found)]),
        Section("When they were enqueued", [_picture(found)]),
        Section("What went wrong", [_group_table(groups)]),
        Section("Samples", [_sample_table(groups)]),
        Section("Rules", [_rule_table(found)]),
    ]
    return page(title, f"{plain(found['dead_letters'])} dead letters", sections)


def triage_text(found: Mapping[str, Any]) -> str:
    """Write it in lines."""
    lines = [f"{found['dead_letters']:,} dead letters in {len(found['groups']):,} groups"]
    for each in found["groups"][:_SHOWN]:
        reason = each["dead_letter_reason"] or "(no reason)"
        text = shortened(each["exception_text"] or "(no text)", _TEXT_WIDTH)
        lines.append(f"{each['messages']:>9,}  {each['place']}  {reason}  {text}")
    if len(found["groups"]) > _SHOWN:
        lines.append(f"{'':>9}  and {len(found['groups']) - _SHOWN} groups more")
    done = {each["rule"]: each for each in found.get("done", ())}
    for each in found["rules"]:
        lines.append(f"{each['rule']}: {each['do']} matches {each['matched']:,}")
        if each["rule"] in done:
            lines[-1] += _done_text(done[each["rule"]])
    if found["rules"]:
        lines.append(f"no rule matches {found['unmatched']:,}")
    return "\n".join(lines)


def _done_text(done: Mapping[str, Any]) -> str:
    text = f", done {done['done']:,}"
    if done["held"]:
        text += f", {done['held']:,} left alone: somebody holds them"
    if done["refused"]:
        text += f", {done['refused']:,} cannot go; the first, {done['refusal']}"
    if done["unavailable"]:
        text += f"; out of reach: {'; '.join(done['unavailable'])}"
    return text


def _glance(found: Mapping[str, Any]) -> str:
    reasons = {each["dead_letter_reason"] for each in found["groups"]}
    places = {each["place"] for each in found["groups"]}
    return cards(
        [
            ("dead letters", plain(found["dead_letters"])),
            ("groups", plain(len(found["groups"]))),
            ("reasons", plain(len(reasons))),
            ("entities", plain(len(places))),
        ]
    )


def _picture(found: Mapping[str, Any]) -> str:
    over_time = found["over_time"]
    buckets = over_time["buckets"]
    stacks = [
        Series(_name(group), [each["by_group"][number] for each in buckets])
        for number, group in enumerate(found["groups"][: COLOURS - 1])
    ]
    if any(each["others"] for each in buckets):
        stacks.append(Series("others", [each["others"] for each in buckets]))
    labels = [each["from"][:16].replace("T", " ") for each in buckets]
    title = f"dead letters in each {plain(over_time['bucket_seconds'] / 3600)} hours"
    return note(title) + columns(labels, stacks, title=title)


def _name(group: Mapping[str, Any]) -> str:
    parts = (group["place"], group["dead_letter_reason"], group["exception_text"])
    return " · ".join(each for each in parts if each)


def _group_table(groups: list[Mapping[str, Any]]) -> str:
    rows = [
        [
            each["messages"],
            each["place"],
            each["dead_letter_reason"],
            each["exception_text"],
            _minute(each["first"]),
            _minute(each["last"]),
        ]
        for each in groups
    ]
    return table(["messages", "entity", "reason", "text", "first", "last"], rows)


def _sample_table(groups: list[Mapping[str, Any]]) -> str:
    rows = [
        [
            each["place"],
            str(sample["sequence_number"]),
            sample["message_id"],
            sample["description"],
            sample["body"],
        ]
        for each in groups[:_SHOWN]
        for sample in each["samples"]
    ]
    return table(["entity", "sequence number", "message id", "description", "body"], rows)


def _rule_table(found: Mapping[str, Any]) -> str:
    done = {each["rule"]: each for each in found.get("done", ())}
    rows = [
        [
            each["rule"],
            each["do"],
            each["matched"],
            done[each["rule"]]["done"] if each["rule"] in done else None,
            done[each["rule"]]["held"] if each["rule"] in done else None,
            done[each["rule"]]["refused"] if each["rule"] in done else None,
        ]
        for each in found["rules"]
    ]
    return table(["rule", "does", "matches", "done", "held", "refused"], rows)


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
