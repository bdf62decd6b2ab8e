"""What docs/observability.md, the alerts and the dashboard say of metrics is what there is."""

import json
import re
from pathlib import Path
from typing import Final

import yaml

from bendybus.http.metric_families import FAMILIES

DOCS: Final = Path(__file__).parents[2] / "docs"
METRIC: Final = re.compile(r"\b(?:bendybus|process)_[a-z_]+\b")


def names_there_are() -> set[str]:
    names = {family.sample_name for family in FAMILIES}
    for family in FAMILIES:
        if family.kind == "histogram":
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def test_the_page_lists_every_metric_with_its_kind_and_meaning() -> None:
    page = (DOCS / "observability.md").read_text()
    rows = re.findall(
        r"^\| `((?:bendybus|process)_\w+)` \| (\w+) \| .* \| (.+) \|$", page, re.MULTILINE
    )
    assert rows == [(each.sample_name, each.kind, each.text) for each in FAMILIES]


def test_the_page_asks_for_metrics_that_exist() -> None:
    page = (DOCS / "observability.md").read_text()
    assert set(METRIC.findall(page)) <= names_there_are()


def test_every_alert_asks_for_metrics_that_exist() -> None:
    document = yaml.safe_load((DOCS / "observability/alerts.yaml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        asked = set(METRIC.findall(rule["expr"]))
        assert asked
        assert asked <= names_there_are(), rule["alert"]


def test_every_panel_asks_for_metrics_that_exist() -> None:
    document = json.loads((DOCS / "observability/dashboard.json").read_text())
    assert document["panels"]
    for panel in document["panels"]:
        for target in panel["targets"]:
            asked = set(METRIC.findall(target["expr"]))
            assert asked
            assert asked <= names_there_are(), panel["title"]
