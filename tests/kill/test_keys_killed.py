"""A renewed key is the key, whatever dies right after the answer."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from bendybus.model.access import make_sas
from bendybus.settings import DEFAULT_RULE_NAME, DEVELOPMENT_KEY
from bendybus.testing.broker_process import BrokerProcess, broker_process

BOSS_KEY = "the-first-key-of-the-boss"
CONFIG = f"""
UserConfig:
  Namespaces:
  - Name: ours
    Queues:
    - Name: parts
      Properties:
        EnablePartitioning: true
        AuthorizationRules:
        - {{KeyName: boss, Rights: [Manage, Send, Listen], PrimaryKey: {BOSS_KEY}}}
"""
LEVELS = {"": (DEFAULT_RULE_NAME, DEVELOPMENT_KEY), "/parts": ("boss", BOSS_KEY)}
KILLS = 3


@pytest.fixture
def broker(tmp_path: Path, stores: Sequence[str]) -> Iterator[BrokerProcess]:
    config = tmp_path / "namespace.yaml"
    config.write_text(CONFIG)
    options = () if stores else ("--stores", "4")
    with broker_process(config, folder=tmp_path, options=options, stores=stores) as broker:
        yield broker


@pytest.mark.spec("R7.1")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "stores", ["files", pytest.param("databases", marks=pytest.mark.prove)], indirect=True
)
def test_a_renewed_key_outlives_a_kill_and_the_old_one_does_not(
    broker: BrokerProcess, level: str
) -> None:
    rule, key = LEVELS[level]
    for _ in range(KILLS):
        path = f"{level}/$authorizationRules/{rule}/regenerateKeys"
        answer = _ask(broker, "POST", path, rule, key, {"keyType": "PrimaryKey"})
        assert answer.status_code == 200
        broker.kill()
        old, key = key, answer.json()["primaryKey"]
        broker.start()
        rules = f"{level}/$authorizationRules"
        assert _ask(broker, "GET", rules, rule, old).status_code == 401
        assert _ask(broker, "GET", rules, rule, key).status_code == 200
    assert key not in broker.log
    assert BOSS_KEY not in broker.log


def _ask(
    broker: BrokerProcess, method: str, path: str, rule: str, key: str, content: object = None
) -> httpx.Response:
    token = make_sas("http://localhost/", rule, key, datetime.now(UTC) + timedelta(minutes=5))
    return httpx.request(
        method,
        f"{broker.management_url}{path}",
        json=content,
        headers={"Authorization": token},
        timeout=30,
    )
