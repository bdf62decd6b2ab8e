"""The cases: every scenario, with each official client, on both kinds of queue."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
# There only where it could be built.
PROTON_PYTHON: Final = ROOT / ".cache/proton/bin/python"

CONVENTIONAL: Final = "conventional"
PARTITIONED: Final = "partitioned"
KINDS: Final = (CONVENTIONAL, PARTITIONED)

# What every queue has unless its scenario says otherwise: locks that outlast any scenario.
QUEUE_PROPERTIES: Final = {"LockDuration": "PT1M"}
# The property that makes the entity of a case a topic.
SUBSCRIPTIONS: Final = "Subscriptions"
FORWARDS: Final = ("ForwardTo", "ForwardDeadLetteredMessagesTo")
# How the name of a queue ends that forwards back to the one that forwards to it.
BACK: Final = ".back"


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario, run by one client on one kind of queue of its own."""

    client: str
    scenario: str
    kind: str
    properties: Mapping[str, Any]
    # Whether it comes to several front ends by one address, in place of a broker with embedded
    # stores.
    is_shared: bool = False

    def __str__(self) -> str:
        of_many = "-of-many" if self.is_shared else ""
        return f"{self.client}{of_many}-{self.kind}-{self.scenario}"

    @property
    def client_version(self) -> str:
        """The version of the client, which the program that runs it must find."""
        return self.client.rpartition("-")[2]

    @property
    def queue(self) -> str:
        """The queue that this case has to itself; also the name under which it is reported."""
        return f"{self.scenario}.{self.kind}"

    @property
    def is_partitioned(self) -> bool:
        """Whether its queue has fragments."""
        return self.kind == PARTITIONED

    @property
    def is_topic(self) -> bool:
        """Whether it has a topic in place of a queue."""
        return SUBSCRIPTIONS in self.properties


def write_namespace(path: Path, cases: Iterable[Case]) -> Path:
    """Write the configuration of a broker that has the entities of these cases, in their order."""
    cases = list(cases)
    queues = [each for case in cases if not case.is_topic for each in declarations(case)]
    return write_entities(path, queues, [declared_topic(case) for case in cases if case.is_topic])


def declarations(case: Case) -> Iterable[dict[str, Any]]:
    """Declare the queue of a case, and where it forwards to: a queue of the other kind.

    A name in its properties may begin with `{queue}`, which is that of the case's own.
    """
    properties = {
        key: value.format(queue=case.queue) if key in FORWARDS else value
        for key, value in case.properties.items()
    }
    yield declaration(case.queue, case.kind, properties)
    [other] = set(KINDS) - {case.kind}
    for target in {properties[key] for key in FORWARDS if key in properties}:
        yield declaration(target, other, {"ForwardTo": case.queue} if BACK in target else {})


def declared_topic(case: Case) -> dict[str, Any]:
    """Declare the topic of a case, with the subscriptions that its properties list."""
    own = {key: value for key, value in case.properties.items() if key != SUBSCRIPTIONS}
    subscriptions = [
        {**each, "Properties": {**QUEUE_PROPERTIES, **each.get("Properties", {})}}
        for each in case.properties[SUBSCRIPTIONS]
    ]
    return {
        "Name": case.queue,
        "Properties": {**own, "EnablePartitioning": case.is_partitioned},
        SUBSCRIPTIONS: subscriptions,
    }


def declaration(name: str, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Declare one queue as the configuration file has it."""
    own = {**QUEUE_PROPERTIES, **properties, "EnablePartitioning": kind == PARTITIONED}
    return {"Name": name, "Properties": own}


def write_queues(path: Path, queues: Sequence[Mapping[str, Any]]) -> Path:
    """Write the configuration of a broker that has these queues."""
    return write_entities(path, queues, [])


def write_entities(
    path: Path, queues: Sequence[Mapping[str, Any]], topics: Sequence[Mapping[str, Any]]
) -> Path:
    """Write the configuration of a broker that has these queues and topics."""
    namespace = {"Name": "sbemulatorns", "Queues": queues, "Topics": topics}
    path.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}, indent=1))
    return path
