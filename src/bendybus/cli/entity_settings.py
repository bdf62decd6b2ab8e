"""What can be said of queues, topics and subscriptions, in the words of `az servicebus`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bendybus.atom.properties import Kind
from bendybus.cli.age import duration_of
from bendybus.cli.failure import CommandFailed
from bendybus.model.durations import parse_duration
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import ArgumentInvalid


class Truth(StrEnum):
    """Yes or no, as `az` takes them."""

    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option, the property of the model that it sets, and how it is read."""

    option: str
    field: str
    type: type
    read: Callable[[Any], Any]
    help: str
    # Chosen at creation, and never changed.
    is_fixed: bool = False

    @property
    def parameter(self) -> str:
        """The name of the option within a command."""
        return self.option.removeprefix("--").replace("-", "_")


def _duration(text: str) -> Any:  # noqa: ANN401 - as the property has it
    short = duration_of(text)
    return parse_duration(text) if short is None else short


def _duration_or_never(text: str) -> Any:  # noqa: ANN401 - as the property has it
    return None if text == "never" else _duration(text)


def _text_or_nothing(text: str) -> str | None:
    return text or None


def _truth(value: Truth) -> bool:
    return value is Truth.TRUE


_ALL: Final = (
    Setting(
        "--enable-partitioning",
        "enable_partitioning",
        Truth,
        _truth,
        "Spread it over many messaging stores. Fixed at creation.",
        is_fixed=True,
    ),
    Setting(
        "--max-size",
        "max_size_megabytes",
        int,
        int,
        "Megabytes, of each fragment: 1024, 2048, 3072, 4096 or 5120.",
    ),
    Setting(
        "--max-message-size",
        "max_message_size_kilobytes",
        int,
        int,
        "Kilobytes; more than 256 needs the Premium tier.",
    ),
    Setting(
        "--lock-duration", "lock_duration", str, _duration, "How long a lock lasts: 30s, PT30S."
    ),
    Setting(
        "--default-message-time-to-live",
        "default_message_time_to_live",
        str,
        _duration_or_never,
        "When messages expire: 7d, P7D, never.",
    ),
    Setting(
        "--max-delivery-count",
        "max_delivery_count",
        int,
        int,
        "Deliveries that may fail before a message is dead-lettered.",
    ),
    Setting(
        "--enable-session",
        "requires_session",
        Truth,
        _truth,
        "Receive by session. Fixed at creation.",
        is_fixed=True,
    ),
    Setting(
        "--enable-duplicate-detection",
        "requires_duplicate_detection",
        Truth,
        _truth,
        "Drop messages whose id came before. Fixed at creation.",
        is_fixed=True,
    ),
    Setting(
        "--duplicate-detection-history-time-window",
        "duplicate_detection_history_time_window",
        str,
        _duration,
        "How long ids are known: 10m, PT10M.",
    ),
    Setting(
        "--enable-dead-lettering-on-message-expiration",
        "dead_lettering_on_message_expiration",
        Truth,
        _truth,
        "Keep what expired as dead letters.",
    ),
    Setting(
        "--dead-letter-on-filter-exceptions",
        "dead_lettering_on_filter_evaluation_exceptions",
        Truth,
        _truth,
        "Keep what a filter failed on as dead letters.",
    ),
    Setting(
        "--forward-to",
        "forward_to",
        str,
        _text_or_nothing,
        "Pass every message on to a queue or topic; '' to do so no longer.",
    ),
    Setting(
        "--forward-dead-lettered-messages-to",
        "forward_dead_lettered_messages_to",
        str,
        _text_or_nothing,
        "Pass dead letters on; '' to do so no longer.",
    ),
    Setting(
        "--auto-delete-on-idle",
        "auto_delete_on_idle",
        str,
        _duration_or_never,
        "Delete it after so long without use: 1h, PT1H, never.",
    ),
    Setting("--status", "status", EntityStatus, EntityStatus, "Which ways are open."),
    Setting(
        "--user-metadata",
        "user_metadata",
        str,
        _text_or_nothing,
        "Any text of yours; '' to take it away.",
    ),
)
_NOT_OF_TOPICS: Final = frozenset(
    {
        "dead_lettering_on_filter_evaluation_exceptions",
        "dead_lettering_on_message_expiration",
        "forward_dead_lettered_messages_to",
        "forward_to",
        "lock_duration",
        "max_delivery_count",
        "requires_session",
    }
)
_NOT_OF_SUBSCRIPTIONS: Final = frozenset(
    {
        "duplicate_detection_history_time_window",
        "enable_partitioning",
        "max_message_size_kilobytes",
        "max_size_megabytes",
        "requires_duplicate_detection",
    }
)
_NOT_OF: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.QUEUE: frozenset({"dead_lettering_on_filter_evaluation_exceptions"}),
    Kind.TOPIC: _NOT_OF_TOPICS,
    Kind.SUBSCRIPTION: _NOT_OF_SUBSCRIPTIONS,
}


def settings_of(kind: Kind, *, is_new: bool) -> list[Setting]:
    """Return what can be said of a new entity, or changed of one that is there."""
    return [
        setting
        for setting in _ALL
        if setting.field not in _NOT_OF[kind] and (is_new or not setting.is_fixed)
    ]


def properties_of(settings: list[Setting], said: Mapping[str, Any]) -> dict[str, Any]:
    """Read what was said into properties. Raises `CommandFailed`, naming the option."""
    properties: dict[str, Any] = {}
    for setting in settings:
        value = said[setting.parameter]
        if value is None:
            continue
        try:
            properties[setting.field] = setting.read(value)
        except ArgumentInvalid as error:
            raise CommandFailed(
                f"{setting.option}: {error.message}, or short as 30s, 5m, 7d"
            ) from None
    return properties
