"""Rules of a triage: what they mean, and where in the file a mistake is."""

from pathlib import Path

import pytest

from bendybus.model.errors import ConfigInvalid
from bendybus.pipelines.triage_rules import Deed, Match, Rule, load_rules

pytestmark = pytest.mark.spec("R9.2")

GOOD = """\
rules:
  - name: timeouts
    match:
      entity: [orders, "news/Subscriptions/*"]
      reason: MaxDeliveryCountExceeded
      text: "Timeout*"
      where: "delivery_count > 3"
    do: redrive
    to: orders-slow
  - match: {reason: Rejected}
    do: edit
    set:
      body: "replace(cast(body AS STRING), 'a', 'b')"
      subject: "'again'"
      properties.retried: "true"
    remove: [attempt]
  - name: old
    match: {text: "*"}
    do: archive
    into: /data/old
  - name: noise
    match: {reason: [a, b]}
    do: drop
"""


def loaded(folder: Path, text: str) -> list[Rule]:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return load_rules(path)


def test_all_that_can_be_said_is_read(tmp_path: Path) -> None:
    first, second, third, fourth = loaded(tmp_path, GOOD)

    assert (first.name, first.deed, first.to) == ("timeouts", Deed.REDRIVE, "orders-slow")
    assert first.match.entities == ("orders", "news/Subscriptions/*")
    assert first.match.reasons == ("MaxDeliveryCountExceeded",)
    assert first.match.texts == ("Timeout*",)
    assert first.match.where is not None
    assert first.match.where.text == "delivery_count > 3"
    assert (second.name, second.deed, second.removed) == ("rule 2", Deed.EDIT, ("attempt",))
    assert {name: each.text for name, each in second.changes.items()} == {
        "body": "replace(cast(body AS STRING), 'a', 'b')",
        "subject": "'again'",
        "properties.retried": "true",
    }
    assert (third.deed, third.into) == (Deed.ARCHIVE, "/data/old")
    assert (fourth.deed, fourth.match) == (Deed.DROP, Match(reasons=("a", "b")))


RULE = "rules:\n  - name: one\n    match: {reason: a}\n"


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("rules: []", "1:8", "there is no rule"),
        ("rule: []", "1:1", "did you mean rules?"),
        ("rules:\n  - match: {reason: a}\n", "2:5", "do is missing"),
        ("rules:\n  - do: drop\n", "2:5", "match is missing"),
        (RULE + "    do: redirve\n", "4:9", "did you mean redrive?"),
        (RULE + "    do: drop\n    to: b\n", "5:9", "do: redrive or edit, not do: drop"),
        (RULE + "    do: redrive\n    into: b\n", "5:11", "do: archive, not do: redrive"),
        (RULE + "    do: archive\n", "2:5", "into is missing"),
        (RULE + "    do: edit\n", "2:5", "an edit needs set or remove"),
        (RULE + "    do: edit\n    set: {subjct: \"'a'\"}\n", "5:19", "did you mean subject?"),
        (RULE + '    do: edit\n    set: {time_to_live: "1"}\n', "5:25", "cannot be set"),
        (RULE + '    do: edit\n    set: {properties.: "1"}\n', "5:24", "cannot be set"),
        (RULE + "    do: edit\n    set: {body: 1}\n", "5:17", "put 1 in quotes"),
        ("rules:\n  - match: {}\n    do: drop\n", "2:12", "says nothing"),
        ("rules:\n  - match: {reason: []}\n    do: drop\n", "2:21", "matches nothing"),
        ("rules:\n  - match: {reasn: a}\n    do: drop\n", "2:13", "did you mean reason?"),
        ("rules:\n  - match: {where: true}\n    do: drop\n", "2:20", "must be a text"),
        (RULE + "    do: drop\n" + RULE[7:] + "    do: drop\n", "5:5", "another rule called 'one'"),
        ("rules:\n" + "  - {match: {text: a}, do: drop}\n" * 101, "2:3", "more than 100 rules"),
        ("rules: [", "1:9", "not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, place: str, why: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        loaded(tmp_path, text)
    assert f"rules.yaml:{place}: " in str(refusal.value)
    assert why in str(refusal.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_rules(tmp_path / "none.yaml")
