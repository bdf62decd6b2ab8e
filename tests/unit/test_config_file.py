"""Configuration files: what they mean, and how wrong ones are refused."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bendybus.config_file import Config, load_config
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import ConfigInvalid
from bendybus.model.namespace import Namespace
from bendybus.model.rule import CorrelationFilter, Rule, SqlAction, SqlFilter
from bendybus.settings import NO_DOOR, Choices, Plain

# In the shape of the file that comes with the emulator: every key it knows, comments included.
EMULATOR_CONFIG = """
// what the emulator is told
{
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns",
        "Queues": [
          {
            "Name": "queue.1", /* the // first */
            "Properties": {
              "DeadLetteringOnMessageExpiration": true,
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "ForwardDeadLetteredMessagesTo": "",
              "ForwardTo": "",
              "LockDuration": "PT1M",
              "MaxDeliveryCount": 3,
              "RequiresDuplicateDetection": false,
              "RequiresSession": false
            }
          }
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": {
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "RequiresDuplicateDetection": false
            },
            "Subscriptions": [
              {
                "Name": "subscription.1",
                "Properties": {
                  "DeadLetteringOnMessageExpiration": false,
                  "DefaultMessageTimeToLive": "PT1H",
                  "LockDuration": "PT1M",
                  "MaxDeliveryCount": 3,
                  "ForwardDeadLetteredMessagesTo": "",
                  "ForwardTo": "queue.1",
                  "RequiresSession": false
                },
                "Rules": [
                  {
                    "Name": "by-fields",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": {
                        "ContentType": "application/json",
                        "CorrelationId": "id1",
                        "Label": "subject1",
                        "MessageId": "msgid1",
                        "ReplyTo": "someQueue",
                        "ReplyToSessionId": "sessionId",
                        "SessionId": "session1",
                        "To": "xyz",
                        "Properties": {"colour": "red", "weight": 3}
                      }
                    }
                  },
                  {
                    "Name": "by-sql",
                    "Properties": {
                      "FilterType": "Sql",
                      "SqlFilter": {"SqlExpression": "sys.To = 'xyz'"},
                      "Action": {"SqlExpression": "SET sys.To = 'Entity'"}
                    }
                  }
                ]
              },
              {"Name": "subscription.2", "Rules": null, "Properties": {"ForwardTo": null}}
            ]
          }
        ]
      }
    ],
    "Logging": {"Type": "File"}
  }
}
"""


def load(folder: Path, content: str | dict[str, Any], suffix: str = "json") -> Config:
    file = folder / f"config.{suffix}"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_config(file)


def with_queue(queue: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    return {"UserConfig": {"Namespaces": [{"Name": "ns", "Queues": [queue, *others]}]}}


def with_property(key: str, value: object) -> dict[str, Any]:
    return with_queue({"Name": "q", "Properties": {key: value}}, {"Name": "other"})


def with_rule(properties: dict[str, Any]) -> dict[str, Any]:
    subscription = {"Name": "s", "Rules": [{"Name": "r", "Properties": properties}]}
    topic = {"Name": "t", "Subscriptions": [subscription]}
    return {"UserConfig": {"Namespaces": [{"Name": "ns", "Topics": [topic]}]}}


def test_the_emulators_own_file_is_taken_as_it_is(tmp_path: Path) -> None:
    namespace = load(tmp_path, EMULATOR_CONFIG).namespace
    assert namespace.name == "sbemulatorns"
    assert namespace.queues == (
        Queue(
            "queue.1",
            QueueProperties(
                dead_lettering_on_message_expiration=True,
                default_message_time_to_live=timedelta(hours=1),
                duplicate_detection_history_time_window=timedelta(seconds=20),
                max_delivery_count=3,
            ),
        ),
    )
    [topic] = namespace.topics
    assert topic.properties.default_message_time_to_live == timedelta(hours=1)
    first, second = topic.subscriptions
    assert first.properties.forward_to == "queue.1"
    assert first.rules == (
        Rule(
            "by-fields",
            CorrelationFilter(
                content_type="application/json",
                correlation_id="id1",
                label="subject1",
                message_id="msgid1",
                reply_to="someQueue",
                reply_to_session_id="sessionId",
                session_id="session1",
                to="xyz",
                properties={"colour": "red", "weight": 3},
            ),
        ),
        Rule("by-sql", SqlFilter("sys.To = 'xyz'"), SqlAction("SET sys.To = 'Entity'")),
    )
    assert second.rules == (Rule(),)


def test_yaml_with_the_same_keys_means_the_same(tmp_path: Path) -> None:
    document = json.loads(EMULATOR_CONFIG.split("\n", 2)[2].replace("/* the // first */", ""))
    lines = ["# the same, in the other notation", *_yaml_lines(document, 0)]
    assert load(tmp_path, "\n".join(lines), "yaml") == load(tmp_path, EMULATOR_CONFIG)


def _yaml_lines(node: Any, indent: int) -> list[str]:
    pad = "  " * indent
    items = node.items() if isinstance(node, dict) else ((None, item) for item in node)
    lines = []
    for key, value in items:
        head = f"{pad}-" if key is None else f"{pad}{key}:"
        if isinstance(value, dict | list) and value:
            lines += [head, *_yaml_lines(value, indent + 1)]
        else:
            lines.append(f"{head} {json.dumps(value)}")
    return lines


def test_our_own_properties_of_queues_are_read(tmp_path: Path) -> None:
    text = """
UserConfig:
  Namespaces:
    - Queues:
        - Name: big
          Properties:
            EnablePartitioning: true
            MaxSizeInMegabytes: 5120
            MaxMessageSizeInKilobytes: 1024
            Status: SendDisabled
            UserMetadata: of the night shift
            AutoDeleteOnIdle: P1D
            DefaultMessageTimeToLive: P10675199DT2H48M5.4775807S
"""
    [queue] = load(tmp_path, text, "yml").namespace.queues
    assert queue.properties == QueueProperties(
        enable_partitioning=True,
        max_size_megabytes=5120,
        max_message_size_kilobytes=1024,
        status=EntityStatus.SEND_DISABLED,
        user_metadata="of the night shift",
        auto_delete_on_idle=timedelta(days=1),
        default_message_time_to_live=None,
    )


def test_settings_of_the_broker_may_stand_in_the_file(tmp_path: Path) -> None:
    text = """
Broker:
  DataFolder: data
  Stores: 4
  Host: localhost
  AmqpPort: 5673
  HttpPort: 0
  Plain: never
  TlsCert: server.pem
  TlsKey: /etc/server-key.pem
  AmqpsPort: 5674
  HttpsPort: 443
  FlightPort: none
  FlightTlsPort: 5303
  KeyFile: /etc/key
"""
    config = load(tmp_path, text, "yaml")
    assert config.namespace == Namespace()
    assert config.choices == Choices(
        data=tmp_path / "data",
        stores=4,
        host="localhost",
        amqp_port=5673,
        http_port=0,
        plain=Plain.NEVER,
        tls_cert=tmp_path / "server.pem",
        tls_key=Path("/etc/server-key.pem"),
        amqps_port=5674,
        https_port=443,
        flight_port=NO_DOOR,
        flight_tls_port=5303,
        key_file=Path("/etc/key"),
    )


def test_the_example_of_the_project_is_a_good_file() -> None:
    example = Path(__file__).parents[2] / "examples" / "namespace.yaml"
    queues = load_config(example).namespace.queues
    assert sorted(queue.properties.enable_partitioning for queue in queues) == [False, True]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (with_property("LockDuration", "PT10M"), "LockDuration", "between PT5S and PT5M"),
        (with_property("LockDuration", "1 minute"), "LockDuration", "write it as ISO 8601"),
        (with_property("LockDuration", 60), "LockDuration", "put 60 in quotes"),
        (with_property("LockDuration", None), "LockDuration", "must be a text, not nothing"),
        (with_property("MaxDeliveryCount", 0), "MaxDeliveryCount", "between 1 and 2000, not 0"),
        (with_property("MaxDeliveryCount", "3"), "MaxDeliveryCount", "number 3, without quotes"),
        (with_property("MaxDeliveryCount", 1.5), "MaxDeliveryCount", "whole number, not 1.5"),
        (with_property("MaxDeliveryCount", True), "MaxDeliveryCount", "whole number, not true"),
        (with_property("MaxSizeInMegabytes", 1000), "MaxSizeInMegabytes", "steps of 1024"),
        (with_property("EnablePartitioning", "True"), "EnablePartitioning", "true, without quotes"),
        (with_property("EnablePartitioning", 1), "EnablePartitioning", "true or false, not 1"),
        (with_property("RequiresSession", []), "RequiresSession", "true or false, not a list"),
        (with_property("RequiresSession", {}), "RequiresSession", "not a mapping"),
        (with_property("ForwardTo", []), "ForwardTo", "must be a text, not a list"),
        (with_property("ForwardTo", "othr"), "ForwardTo", "did you mean other?"),
        (with_property("ForwardTo", "Q"), "ForwardTo", "cannot forward to itself"),
        (with_property("Status", "Activ"), "Status", "did you mean Active?"),
        (
            with_property("MaxDeliverycount", 3),
            "MaxDeliverycount",
            "did you mean MaxDeliveryCount?",
        ),
        (with_property("Partitioned", True), "Partitioned", "did you mean EnablePartitioning?"),
        (with_property("Zzz", True), "Zzz", "unknown key; it may be AuthorizationRules, "),
    ],
)
def test_a_wrong_property_is_refused_with_its_place_and_what_would_be_right(
    tmp_path: Path, content: dict[str, Any], place: str, message: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, content)
    assert f"UserConfig.Namespaces[0].Queues[0].Properties.{place}: " in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"UserConfg": {}}, "UserConfg: unknown key; did you mean UserConfig?"),
        ({"UserConfig": {}}, "UserConfig: Namespaces is missing"),
        ({"UserConfig": []}, "UserConfig: must be a mapping of keys to values, not a list"),
        ({"UserConfig": {"Namespaces": []}}, "at least one namespace"),
        (
            {"UserConfig": {"Namespaces": [{"Name": "shop"}, {"Name": "localhost"}]}},
            "clients that connect to 'localhost' are in the first namespace",
        ),
        (
            {"UserConfig": {"Namespaces": [{"Name": "shop"}, {"Name": "10.0.0.7"}]}},
            "clients that connect to '10.0.0.7' are in the first namespace",
        ),
        ({"UserConfig": {"Namespaces": [{}, {}]}}, "Name is missing"),
        (
            {"UserConfig": {"Namespaces": [{"Name": "a"}, {"Name": "A"}]}},
            "the name 'A' is taken on line",
        ),
        ({"UserConfig": {"Namespaces": [{"Tier": "premium"}]}}, "did you mean Premium"),
        (
            {"UserConfig": {"Namespaces": [{"PremiumPartitioning": "always"}]}},
            "PremiumPartitioning: is for Tier: Premium only",
        ),
        (
            {"UserConfig": {"Namespaces": [{"Tier": "Premium", "NamespaceFragments": 2}]}},
            "NamespaceFragments: is for PremiumPartitioning: namespace only",
        ),
        (
            {
                "UserConfig": {
                    "Namespaces": [
                        {
                            "Tier": "Premium",
                            "PremiumPartitioning": "namespace",
                            "NamespaceFragments": 3,
                        }
                    ]
                }
            },
            "must be one of 1, 2, 4, not 3",
        ),
        ({"UserConfig": {"Namespaces": {}}}, "Namespaces: must be a list, not a mapping"),
        ({"UserConfig": {"Namespaces": [{"Name": "a/b"}]}}, "[0].Name: 'a/b' is not a name"),
        (
            {"UserConfig": {"Namespaces": [{}], "Logging": {"Type": "Fil"}}},
            "UserConfig.Logging.Type: 'Fil' is not a type; did you mean File?",
        ),
        (with_queue({}), "Queues[0]: Name is missing"),
        (with_queue({"Name": ""}), "Queues[0].Name: a name is needed"),
        (with_queue({"Name": "/q"}), "Queues[0].Name: '/q' is not a name: use letters"),
        (
            with_queue({"Name": "q"}, {"Name": "Q"}),
            "Queues[1].Name: the name 'Q' is taken on line 1",
        ),
        (with_rule({}), "Rules[0].Properties: FilterType is missing"),
        (with_rule({"FilterType": "sql"}), "'sql' is not a type of filter; did you mean Sql?"),
        (with_rule({"FilterType": "Sql"}), "Rules[0].Properties: SqlFilter is missing"),
        (
            with_rule({"FilterType": "Sql", "SqlFilter": {"SqlExpression": ""}}),
            "SqlFilter.SqlExpression: an SQL expression is needed",
        ),
        (
            with_rule({"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = = 1"}}),
            "SqlFilter.SqlExpression: syntax error at character 5",
        ),
        (
            with_rule(
                {
                    "FilterType": "Sql",
                    "SqlFilter": {"SqlExpression": "a = 1"},
                    "Action": {"SqlExpression": "SET sys.State = 1"},
                }
            ),
            "Action.SqlExpression: the system property State is read-only",
        ),
        (
            with_rule({"FilterType": "Sql", "SqlFilter": {}, "CorrelationFilter": {}}),
            "CorrelationFilter: does not belong to this FilterType",
        ),
        (
            with_rule({"FilterType": "Correlation", "CorrelationFilter": {}}),
            "CorrelationFilter: a correlation filter must set at least one field",
        ),
        (
            with_rule(
                {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"a": []}}}
            ),
            "CorrelationFilter.Properties.a: must be a text, a number, true or false",
        ),
        ({"Broker": {"Stores": "4"}}, "Broker.Stores: must be the number 4, without quotes"),
        ({"Broker": {"Stores": []}}, "Broker.Stores: must name at least one store"),
        ({"Broker": {"Stores": ["x"]}}, "Broker.Stores[0]: it must be the URL of a PostgreSQL"),
        (
            {"Broker": {"Plain": "yes"}},
            "Broker.Plain: must be loopback, anywhere, never;",
        ),
        ({"Broker": {"Port": 4}}, "Broker.Port: unknown key; did you mean HttpPort?"),
        ([], "must be a mapping"),
    ],
)
def test_a_wrong_structure_is_refused_with_its_place(
    tmp_path: Path, content: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, content)
    assert text in str(refused.value)


@pytest.mark.spec("R1.5")
def test_too_many_subscriptions_are_refused_at_their_topic(tmp_path: Path) -> None:
    topic = {"Name": "t", "Subscriptions": [{"Name": f"s{number}"} for number in range(2001)]}
    with pytest.raises(ConfigInvalid, match=r"Topics\[0\]: A topic can have at most 2000 subscr"):
        load(tmp_path, {"UserConfig": {"Namespaces": [{"Name": "ns", "Topics": [topic]}]}})


@pytest.mark.spec("R1.5")
def test_too_many_partitioned_queues_are_refused(tmp_path: Path) -> None:
    queues = [{"Name": f"q{n}", "Properties": {"EnablePartitioning": True}} for n in range(101)]
    with pytest.raises(ConfigInvalid, match="at most 100 partitioned"):
        load(tmp_path, with_queue(queues[0], *queues[1:]))


@pytest.mark.parametrize(
    ("suffix", "text", "place"),
    [
        (
            "json",
            '{\n  "Broker": {\n    "Stores": true\n  }\n}',
            "config.json:3:15: Broker.Stores:",
        ),
        ("json", '{\n  "Broker": {\n\t"Store": 1\n  }\n}', "config.json:3:2: Broker.Store:"),
        ("yaml", "Broker:\n  Stores: true\n", "config.yaml:2:11: Broker.Stores:"),
        ("yaml", "Broker:\n  Store: 1\n", "config.yaml:2:3: Broker.Store:"),
    ],
)
def test_a_refusal_gives_line_and_column(
    tmp_path: Path, suffix: str, text: str, place: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load(tmp_path, text, suffix)
    assert str(tmp_path / place) in str(refused.value)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_key_given_twice_is_refused(tmp_path: Path, suffix: str) -> None:
    text = '{"Broker": {"Stores": 1,\n "Stores": 2}}'
    with pytest.raises(ConfigInvalid, match=r":2:2: Broker\.Stores: the key is there twice"):
        load(tmp_path, text, suffix)


def test_stores_may_be_a_list_of_databases(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("Broker:\n  Stores: ['postgresql://db/a', 'postgresql://db/b']\n")
    choices = load_config(file).choices
    assert choices.stores is None
    assert [str(place) for place in choices.places or ()] == [
        "postgresql://db/a",
        "postgresql://db/b",
    ]
