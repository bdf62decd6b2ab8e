"""Redriving, editing and dropping dead letters that were chosen one by one, from Spark's tasks.

A task names messages by their numbers, and the broker moves or deletes each in one commit, if it is
still there and nobody holds it. So a task that is tried again, or a run that is repeated, does the
rest: no message is dealt with twice, and no notes are kept anywhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

from bendybus.client import Client, Edit, Progress, Purge, Redrive, SubQueue
from bendybus.client.encoded_message import instant
from bendybus.model.entity import subscription_path
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.triage_matching import edited
from bendybus.pipelines.triage_rules import BODY, PROPERTY, SETTABLE, Deed, Rule
from bendybus.pipelines.trusting import trusting

OUTCOME: Final = "done BIGINT, held BIGINT, refused BIGINT, refusal STRING, unavailable STRING"
_TOGETHER: Final = 1000
"""How many messages are asked for before the next are looked at."""


def perform(options: BusOptions, chosen: DataFrame, rule: Rule) -> dict[str, Any]:
    """Do what a rule says to the messages that were chosen; return how many that were."""
    columns = {
        f"value_{number}": edited(name, expression, chosen)
        for number, (name, expression) in enumerate(rule.changes.items())
    }
    work = _Work(
        options.connection_string,
        None if options.authority is None else options.authority.read_text(encoding="utf-8"),
        rule.deed,
        rule.to,
        tuple(rule.changes),
        rule.removed,
    )

    def perform_in_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work.perform(batches)

    # Each fragment in one task, in its order: those of a session stay in theirs.
    outcomes = (
        chosen.select(
            "entity",
            "subscription",
            "fragment",
            "sequence_number",
            *(column.alias(name) for name, column in columns.items()),
        )
        .repartition("entity", "subscription", "fragment")
        .sortWithinPartitions("entity", "subscription", "sequence_number")
        .mapInArrow(perform_in_task, OUTCOME)
    )
    [total] = outcomes.agg(
        *(F.coalesce(F.sum(each), F.lit(0)).alias(each) for each in ("done", "held", "refused")),
        F.min("refusal").alias("refusal"),
        F.array_sort(F.collect_set("unavailable")).alias("unavailable"),
    ).collect()
    return total.asDict()


@dataclass(frozen=True, slots=True)
class _Work:
    """What a task is to do. It travels to the worker."""

    connection_string: str
    authority: str | None
    deed: Deed
    to: str | None
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def perform(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Deal with the messages of a task; yield what became of them."""
        tls = None if self.authority is None else trusting(self.authority)
        with Client.from_connection_string(self.connection_string, tls=tls) as client:
            for batch in batches:
                for at in range(0, batch.num_rows, _TOGETHER):
                    rows = batch.slice(at, _TOGETHER).to_pylist()
                    for (entity, subscription), some in groupby(rows, _place):
                        done = self._deal_with(client, entity, subscription, list(some))
                        yield _outcome(entity, subscription, done)

    def _deal_with(
        self, client: Client, entity: str, subscription: str | None, rows: list[dict[str, Any]]
    ) -> Progress:
        numbers = [row["sequence_number"] for row in rows]
        place: dict[str, Any] = {"subscription": subscription, "sub_queue": SubQueue.DEAD_LETTER}
        match self.deed:
            case Deed.DROP:
                return client.purge(entity, Purge(sequences=numbers), **place)
            case Deed.REDRIVE:
                return client.redrive(entity, Redrive(sequences=numbers, to=self.to), **place)
            case Deed.EDIT:
                edits, bodiless = self._edits(rows)
                done = client.redrive(entity, Redrive(edits=edits, to=self.to), **place)
                if bodiless:
                    done.refused += len(bodiless)
                    done.refusal = f"message {bodiless[0]}: the edit gives it no body"
                return done
            case Deed.ARCHIVE:
                raise AssertionError("archives are written by triage_archive")

    def _edits(self, rows: list[dict[str, Any]]) -> tuple[dict[int, Edit], list[int]]:
        """Return the edits by number, and which messages would be left without a body."""
        edits: dict[int, Edit] = {}
        bodiless: list[int] = []
        for row in rows:
            values = {name: row[f"value_{at}"] for at, name in enumerate(self.changed)}
            if BODY in values and values[BODY] is None:
                bodiless.append(row["sequence_number"])
            else:
                edits[row["sequence_number"]] = self._edit(values)
        return edits, bodiless

    def _edit(self, values: Mapping[str, Any]) -> Edit:
        properties = {
            name.removeprefix(PROPERTY): instant(value) if isinstance(value, datetime) else value
            for name, value in values.items()
            if name.startswith(PROPERTY)
        }
        gone = [name for name, value in properties.items() if value is None]
        return Edit(
            system={SETTABLE[name]: value for name, value in values.items() if name in SETTABLE},
            properties={name: value for name, value in properties.items() if value is not None},
            removed=[*self.removed, *gone],
            body=values.get(BODY),
        )


def _place(row: Mapping[str, Any]) -> tuple[str, str | None]:
    return row["entity"], row["subscription"]


def _outcome(entity: str, subscription: str | None, done: Progress) -> pa.RecordBatch:
    place = entity if subscription is None else subscription_path(entity, subscription)
    away = ", ".join(map(str, done.unavailable))
    return pa.RecordBatch.from_pydict(
        {
            "done": pa.array([done.done], pa.int64()),
            "held": pa.array([done.locked], pa.int64()),
            "refused": pa.array([done.refused], pa.int64()),
            "refusal": pa.array([done.refusal], pa.string()),
            "unavailable": pa.array([f"{place}: fragments {away}" if away else None], pa.string()),
        }
    )
