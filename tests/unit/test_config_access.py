"""Access rules and token issuers in the configuration file."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.config_file import load_config
from bendybus.model.access import AccessRule, Right
from bendybus.model.errors import ConfigInvalid, KeyRequired, SettingInvalid
from bendybus.model.namespace import Namespace
from bendybus.model.token_issuer import SERVICE_ROLES, RoleRights
from bendybus.settings import DEFAULT_RULE_NAME, Choices, Plain, Settings, settle

EVERYWHERE = Choices(host="0.0.0.0", plain=Plain.ANYWHERE)  # noqa: S104 - nobody listens
KEY = "a-key-that-must-not-be-seen"
RULES = f"""[{{KeyName: desk, Rights: [Send], PrimaryKey: {KEY}}}]"""


def namespace(
    folder: Path, *, rules: str = "[]", issuer: str = "", of_queue: str = "[]"
) -> Namespace:
    path = folder / "config.yaml"
    path.write_text(
        f"""
UserConfig:
  Namespaces:
  - Name: ours
    AuthorizationRules: {rules}
    {issuer and f"TokenIssuer: {issuer}"}
    Queues:
    - Name: orders
      Properties: {{AuthorizationRules: {of_queue}}}
    Topics:
    - Name: news
      Properties: {{AuthorizationRules: {of_queue}}}
"""
    )
    return load_config(path).namespace


def test_rules_are_read_at_every_level(tmp_path: Path) -> None:
    rule = AccessRule("desk", KEY, frozenset({Right.SEND}))
    read = namespace(tmp_path, rules=RULES, of_queue=RULES)
    assert read.access_rules == (rule,)
    assert read.queues[0].properties.authorization_rules == (rule,)
    assert read.topics[0].properties.authorization_rules == (rule,)
    assert KEY not in repr(read)


def test_keys_need_not_be_given(tmp_path: Path) -> None:
    read = namespace(tmp_path, of_queue="[{KeyName: desk, Rights: [Manage, Send, Listen]}]")
    [rule] = read.queues[0].properties.authorization_rules
    assert (rule.primary_key, rule.rights) == (None, frozenset(Right))


@pytest.mark.parametrize("level", ["rules", "of_queue"])
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("{}", "must be a list"),
        ("[{Rights: [Send]}]", "KeyName is missing"),
        ("[{KeyName: desk}]", "Rights is missing"),
        ("[{KeyName: desk, Rights: []}]", "gives no right"),
        ("[{KeyName: desk, Rights: [Sned]}]", "did you mean Send"),
        ("[{KeyName: desk, Rights: [Manage]}]", "together with Send and Listen"),
        ("[{KeyName: a b, Rights: [Send]}]", "is not a name"),
        (f"[{{KeyName: d, Rights: [Send], PrimaryKey: {KEY[:15]}}}]", "between 16 and 256"),
        (f"[{{KeyName: d, Rights: [Send], PrimaryKey: '{KEY};'}}]", "must not contain ';'"),
        ("[{KeyName: d, Rights: [Send], PrimaryKey: 12345678901234567}]", "in quotes"),
        (f"[{{KeyName: d, Rights: [Send], Primarykey: {KEY}}}]", "did you mean PrimaryKey"),
        (f"[{RULES[1:-1]}, {RULES[1:-1]}]", "two authorization rules are named 'desk'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_without_showing_its_key(
    tmp_path: Path, level: str, text: str, refusal: str
) -> None:
    with pytest.raises(ConfigInvalid, match=refusal) as refused:
        namespace(tmp_path, **{level: text})
    assert KEY[:15] not in str(refused.value)
    assert "12345678901234567" not in str(refused.value)
    assert "AuthorizationRules" in str(refused.value) or level == "rules"


ISSUER = "{Issuer: 'https://i', Audience: 'https://a', KeysUrl: 'https://i/keys'"


def test_an_issuer_is_read_with_the_roles_of_the_service(tmp_path: Path) -> None:
    read = namespace(tmp_path, issuer=f"{ISSUER}}}").token_issuer
    assert read is not None
    assert (read.issuer, read.audience, read.keys) == ("https://i", "https://a", "https://i/keys")
    assert read.roles == SERVICE_ROLES


def test_an_issuer_may_have_roles_of_ones_own_and_keys_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.json").touch()
    read = namespace(
        tmp_path,
        issuer="{Issuer: i, Audience: a, KeysFile: keys.json,"
        " Roles: [{Role: desk, Rights: [Send], Entity: orders}, {Role: boss, Rights: [Manage]}]}",
    ).token_issuer
    assert read is not None
    assert read.keys == str(tmp_path / "keys.json")
    assert read.roles == (
        RoleRights("desk", frozenset({Right.SEND}), "orders"),
        RoleRights("boss", frozenset({Right.MANAGE})),
    )


@pytest.mark.parametrize("url", ["http://127.0.0.1:80/k", "http://localhost/k", "http://[::1]/k"])
def test_keys_may_come_without_tls_from_this_machine(tmp_path: Path, url: str) -> None:
    read = namespace(tmp_path, issuer=f"{{Issuer: i, Audience: a, KeysUrl: '{url}'}}").token_issuer
    assert read is not None
    assert read.keys == url


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("{Issuer: i, Audience: a}", "give one of KeysUrl and KeysFile"),
        (f"{ISSUER}, KeysFile: f}}", "give one of KeysUrl and KeysFile"),
        ("{Audience: a, KeysFile: f}", "Issuer is missing"),
        ("{Issuer: i, KeysFile: f}", "Audience is missing"),
        ("{Issuer: i, Audience: a, KeysFile: f}", "KeysFile: there is no file .*f"),
        ("{Issuer: i, Audience: a, KeysUrl: 'http://example.com/'}", "must begin with https://"),
        ("{Issuer: i, Audience: a, KeysUrl: 'http://127.0.0.1.evil/'}", "must begin with https"),
        ("{Issuer: i, Audience: a, KeysUrl: 'ftp://localhost/'}", "must begin with https://"),
        ("{Issuer: i, Audience: a, KeysUrl: 'file:///etc/keys'}", "must begin with https://"),
        ("{Issuer: i, Audience: a, KeysUrl: 'https://[x/'}", "is not a URL"),
        (f"{ISSUER}, Roles: [{{Role: r, Rights: []}}]}}", "names no right"),
        (f"{ISSUER}, Roles: [{{Role: r, Rights: [Send], Entity: '/'}}]}}", "is not a name"),
    ],
)
def test_an_issuer_that_cannot_be_trusted_is_refused(
    tmp_path: Path, text: str, refusal: str
) -> None:
    with pytest.raises(ConfigInvalid, match=refusal):
        namespace(tmp_path, issuer=text)


# With the key that the broker is started with


def test_rules_of_the_file_come_after_the_root_rule(tmp_path: Path) -> None:
    settings = settle([Choices()], namespace(tmp_path, rules=RULES))
    assert [rule.name for rule in settings.access_rules] == [DEFAULT_RULE_NAME, "desk"]


ROOT = f"[{{KeyName: {DEFAULT_RULE_NAME}, Rights: [Manage, Send, Listen]}}]"


def test_a_root_rule_of_the_file_takes_the_place_of_the_well_known_one(tmp_path: Path) -> None:
    settings = settle([EVERYWHERE], namespace(tmp_path, rules=ROOT))
    assert [rule.keys for rule in settings.access_rules] == [()]
    with pytest.raises(KeyRequired):
        settle([EVERYWHERE], namespace(tmp_path, rules=RULES))


def test_the_root_key_cannot_be_given_in_two_places(tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match="given twice"):
        settle([Choices(key=KEY)], namespace(tmp_path, rules=ROOT))


def test_a_namespace_has_at_most_twelve_rules_the_root_rule_among_them(tmp_path: Path) -> None:
    rules = ", ".join(f"{{KeyName: r{number}, Rights: [Send]}}" for number in range(12))
    with pytest.raises(SettingInvalid, match="more than 12"):
        settle([Choices()], namespace(tmp_path, rules=f"[{rules}]"))
    with pytest.raises(ConfigInvalid, match="at most 12"):
        namespace(tmp_path, rules=f"[{rules}, {{KeyName: more, Rights: [Send]}}]")


@pytest.mark.parametrize("name", ["requests_per_second", "connection_requests_per_second"])
@pytest.mark.parametrize("value", [0, 10_000_001])
def test_a_rate_is_a_number_of_requests_or_not_there(name: str, value: int) -> None:
    def settled(rate: int) -> Settings:
        chosen: Any = {name: rate}
        return settle([Choices(**chosen)], Namespace())

    assert getattr(settled(5), name) == 5
    with pytest.raises(SettingInvalid, match="requests per second"):
        settled(value)
