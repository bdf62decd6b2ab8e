"""The configuration page keeps up with what is read."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from bendybus.cli import app
from bendybus.config_file import load_config
from bendybus.config_file.load import BROKER_KEYS
from bendybus.config_file.properties import (
    CORRELATION_KEYS,
    QUEUE_KEYS,
    SUBSCRIPTION_KEYS,
    TOPIC_KEYS,
)
from bendybus.model.access import with_implied
from bendybus.model.access_rules import RULES_MAX
from bendybus.model.tier import (
    ENTITIES_MAX,
    PARTITIONED_ENTITIES_MAX,
    PremiumPartitioning,
    Tier,
    TierName,
)
from bendybus.model.token_issuer import SERVICE_ROLES
from bendybus.model.topic_queues import (
    CORRELATION_FILTERS_MAX,
    SQL_FILTERS_MAX,
    SUBSCRIPTIONS_MAX,
)
from bendybus.settings import settle

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "configuration.md").read_text()


@pytest.mark.parametrize(
    ("letter", "keys"),
    [("Q", set(QUEUE_KEYS)), ("T", set(TOPIC_KEYS)), ("S", set(SUBSCRIPTION_KEYS))],
)
def test_the_table_of_properties_has_exactly_those_that_are_read(
    letter: str, keys: set[str]
) -> None:
    rows = re.findall(r"^\| `(\w+)`(?: \*)? \| ([QTS ]+) \|", PAGE, re.MULTILINE)
    assert {key for key, of in rows if letter in of} == keys


@pytest.mark.parametrize("key", CORRELATION_KEYS)
def test_every_field_of_a_correlation_filter_is_named(key: str) -> None:
    assert f"`{key}`" in PAGE


@pytest.mark.parametrize("key", BROKER_KEYS)
def test_every_setting_of_the_broker_is_in_the_table(key: str) -> None:
    assert re.search(rf"^\|.*\| `{key}` \|", PAGE, re.MULTILINE)


def test_every_option_of_serve_is_in_the_table() -> None:
    group = get_command(app)
    serve = group.get_command(None, "serve")  # type: ignore[attr-defined]  # it is a group
    options = {name for option in serve.params for name in option.opts}
    assert {name for name in options if f"| `{name}` |" not in PAGE} == set()


def test_the_example_of_the_page_is_a_good_file(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "example.yaml"
    file.write_text(example)
    config = load_config(file)
    assert config.namespace.queues[0].properties.effective_max_size_megabytes == 32768
    assert config.namespace.topics[0].subscriptions[0].rules[0].name == "colour"
    assert config.choices.data == tmp_path / "data"


def test_the_examples_of_the_page_on_security_are_good_files(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / "security.md").read_text(), re.DOTALL)
    namespaces = []
    for number, example in enumerate(examples):
        file = tmp_path / f"example-{number}.yaml"
        file.write_text(example)
        namespaces.append(load_config(file).namespace)
    rules, issuer = namespaces
    assert [rule.name for rule in rules.queues[0].properties.authorization_rules] == [
        "order-desk",
        "warehouse",
    ]
    assert issuer.token_issuer is not None
    written = {role.role: with_implied(role.rights) for role in issuer.token_issuer.roles[:3]}
    assert written == {role.role: role.rights for role in SERVICE_ROLES}


def test_the_namespaces_of_the_administration_page_are_a_good_file(tmp_path: Path) -> None:
    page = (DOCS / "administration.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "example.yaml"
    file.write_text(example)
    config = load_config(file)
    [depot] = config.others
    assert (config.namespace.name, depot.name) == ("shop", "depot")
    assert depot.tier == Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, 4)
    settings = settle([config.choices], config.namespace, config.others)
    assert settings.has_development_key
    assert len(settings.namespaces) == 2


def test_the_limits_of_the_administration_page_are_those_that_hold() -> None:
    page = (DOCS / "administration.md").read_text()
    for limit in (
        ENTITIES_MAX,
        PARTITIONED_ENTITIES_MAX,
        SUBSCRIPTIONS_MAX,
        SQL_FILTERS_MAX,
        CORRELATION_FILTERS_MAX,
        RULES_MAX,
    ):
        assert re.search(rf"^\|.*\| {limit:,} \|", page, re.MULTILINE)
