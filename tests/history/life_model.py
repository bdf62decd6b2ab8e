"""What an entity ought to allow while it is there, and when it ought to go.

A model for each queue, each topic and each subscription. Beside the messages it knows what was said
of the entity last, who has a link to it, and when it was last used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.model.entity import EntityStatus
from bendybus.model.message import MessageState
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS, Expected
from tests.history.set_aside_model import SetAsideModel

OPEN_FOR_SENDING: Final = (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)
OPEN_FOR_RECEIVING: Final = (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)
# How long the broker may take to see that somebody uses an entity, or that nobody does any more.
LOOK_MS: Final = 5_000


class Traits(NamedTuple):
    """What is said of an entity when it is created, and may be said otherwise at any time."""

    status: EntityStatus = EntityStatus.ACTIVE
    lock_duration_ms: int = LOCK_DURATION_MS
    delivery_count_max: int = DELIVERY_COUNT_MAX
    life_ms: int | None = None
    is_dead_lettered_on_expiry: bool = False
    idle_ms: int | None = None


AS_USUAL: Final = Traits()


@dataclass(slots=True)
class LifeModel(SetAsideModel):
    """A queue, a subscription beside its topic, or what waits at a topic for its time."""

    traits: Traits = AS_USUAL
    topic: "LifeModel | None" = None
    is_topic: bool = False
    used_at: int = 0
    link_count: int = 0

    def change(self, traits: Traits) -> None:
        """Behave like this from now on; what was decided of messages before stays decided."""
        self.traits = traits
        self.lock_duration_ms = traits.lock_duration_ms
        self.delivery_count_max = traits.delivery_count_max
        self.is_dead_lettered_on_expiry = traits.is_dead_lettered_on_expiry

    # What is open

    @property
    def takes_messages(self) -> bool:
        """Whether its own status lets messages in; of a subscription, those of its topic."""
        return self.traits.status in OPEN_FOR_SENDING

    @property
    def gives_messages(self) -> bool:
        """Whether receivers may have messages: neither it nor its topic may be closed."""
        is_topic_open = self.topic is None or self.topic.gives_messages
        return is_topic_open and self.traits.status in OPEN_FOR_RECEIVING

    # How long messages live

    def life_of(self, own_ms: int | None) -> int | None:
        """Return the shortest of a message's own life and those that it is given here."""
        lives = [own_ms, self.traits.life_ms]
        if self.topic is not None:
            lives.append(self.topic.traits.life_ms)
        return min((each for each in lives if each is not None), default=None)

    def sweep(self, now: int, is_online: Callable[[Expected], bool]) -> None:
        """Note what a sweep does; what waits at a topic is published, and that is not done here."""
        if not self.is_topic:
            SetAsideModel.sweep(self, now, is_online)

    # Use

    def note_use(self, now: int) -> None:
        """Note that somebody used it; whoever uses a subscription uses its topic."""
        self.used_at = now
        if self.topic is not None:
            self.topic.note_use(now)

    def note_links(self, count: int, now: int) -> None:
        """Note so many links more, or fewer."""
        self.link_count += count
        if self.topic is not None:
            self.topic.note_links(count, now)
        self.note_use(now)

    def begin_anew(self, now: int) -> None:
        """Note that the broker begins anew: there are no links, and idle time begins here."""
        self.link_count, self.used_at = 0, now

    @property
    def idle_from(self) -> int | None:
        """When it will have been idle for as long as it may be, if it stays so."""
        is_waiting = any(each.state is MessageState.SCHEDULED for each in self.messages.values())
        if self.traits.idle_ms is None or self.link_count or is_waiting:
            return None
        return self.used_at + self.traits.idle_ms

    def may_go(self, now: int) -> bool:
        """Whether it has been idle for as long as it may be."""
        return self.idle_from is not None and self.idle_from <= now

    def must_have_gone(self, now: int) -> bool:
        """Whether the broker has had the time to see that."""
        return self.idle_from is not None and self.idle_from + LOOK_MS <= now
