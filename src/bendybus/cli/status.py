"""`bendybus status`: one page about the namespace, its stores and what waits in it."""

import time
from itertools import chain
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from bendybus.atom.properties import Kind
from bendybus.cli.administered import listed_here, managing
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.reader import readers_table
from bendybus.cli.shown_entity import as_json, print_json
from bendybus.client.administration import Administration, Described

SHOWN_MAX: Final = 20
WATCH_SECONDS: Final = 2.0


@managing
def status(
    namespace: Administration,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every 2 seconds.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the namespace, its stores, readers, and the entities that hold most."""
    if output is Output.JSON:
        print_json(_gathered(namespace))
        return
    if not watch:
        Console().print(_page(_gathered(namespace)))
        return
    with Live(_page(_gathered(namespace)), auto_refresh=False) as live:
        while True:
            time.sleep(WATCH_SECONDS)
            live.update(_page(_gathered(namespace)), refresh=True)


def _gathered(namespace: Administration) -> dict[str, Any]:
    info = namespace.namespace()
    entities = all_entities(namespace)
    return {
        "name": info.name,
        "tier": info.tier,
        "entityCount": len(entities),
        "stores": listed_here(namespace, "/$stores"),
        "readers": listed_here(namespace, "/$readers"),
        "entities": [{"kind": each.kind.value, **as_json(each)} for each in entities],
    }


def all_entities(namespace: Administration) -> list[Described]:
    """Return every queue and topic, and the subscriptions by the path that leads to each."""
    topics = list(namespace.list(Kind.TOPIC))
    subscriptions = [
        Described(f"{topic.name}/{each.name}", each.kind, each.properties, each.facts)
        for topic in topics
        for each in namespace.list(Kind.SUBSCRIPTION, topic.name)
    ]
    return list(chain(namespace.list(Kind.QUEUE), topics, subscriptions))


def _page(gathered: dict[str, Any]) -> Group:
    stores = gathered["stores"]
    online = sum(1 for store in stores if store["state"] == "online")
    told = f"{online} of {len(stores)} stores online" if stores else "stores not shown"
    head = Text(
        f"{gathered['name']} ({gathered['tier']}): {gathered['entityCount']:,} entities, {told}"
    )
    table = PlainTable("entity", "active", "dead letters", "scheduled", "bytes", "status")
    ranked = sorted(gathered["entities"], key=_weight, reverse=True)
    for each in ranked[:SHOWN_MAX]:
        counts = each["countDetails"]
        state = each["status"] if each["availability"] == "Available" else each["availability"]
        table.add(
            each["name"],
            f"{counts['activeMessageCount']:,}",
            f"{counts['deadLetterMessageCount']:,}",
            f"{counts['scheduledMessageCount']:,}",
            f"{each['sizeInBytes']:,}",
            str(state),
        )
    rest = len(ranked) - SHOWN_MAX
    readers = gathered["readers"]
    return Group(
        head,
        table,
        *([Text(f"and {rest:,} more")] if rest > 0 else []),
        *([readers_table(readers)] if readers else []),
    )


def _weight(shown: dict[str, Any]) -> tuple[bool, int, int]:
    counts = shown["countDetails"]
    is_limited = shown["availability"] != "Available"
    return is_limited, counts["deadLetterMessageCount"], counts["activeMessageCount"]
