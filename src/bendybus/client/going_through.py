"""Going through a queue, part by part: what is done to many messages without receiving them.

Only what was there at the beginning is gone through, each fragment from its first number to the
last. A part that was asked for twice, because the answer to the first was lost, is done once: what
was done is no longer there. So a run that was cut off anywhere is repeated, and does the rest.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from bendybus.amqp.values import Int, Long
from bendybus.client.encoded_message import instant
from bendybus.client.errors import ServerBusy
from bendybus.client.managing import ManagedEntity, numbers_array
from bendybus.client.steps import Flush, Step, pause
from bendybus.model.ids import COUNTER_BITS, fragment_of

PART_MAX: Final = 1000
"""How many messages one request is for at most."""
_GAP_MAX: Final = 100
"""Numbers further apart are asked for apart: what lies between would be read for nothing."""
_BURST_SECONDS: Final = 0.1
"""With a rate, so many seconds' worth of messages are moved at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of a queue is meant: by numbers, by count, and how fast."""

    from_sequence: int = 0
    until_sequence: int | None = None
    count: int | None = None
    rate: float | None = None
    sequences: Sequence[int] | None = None
    """Only these messages; then the other numbers do not count."""


class Stretch(NamedTuple):
    """A part of one fragment, both ends included, and which messages of it if not all."""

    first: int
    last: int
    named: tuple[int, ...] | None = None

    def behind(self, sequence: int) -> "Stretch":
        """Return what is left of it from a number on."""
        if self.named is None:
            return Stretch(sequence, self.last)
        named = tuple(each for each in self.named if each >= sequence)
        return Stretch(min(named, default=sequence), self.last, named)


@dataclass(slots=True)
class Progress:
    """How far a run has come."""

    total: int = 0
    """How many messages there were at the beginning, in the fragments that could be asked."""
    looked_at: int = 0
    done: int = 0
    """How many were dealt with, or would have been."""
    is_exact: bool = True
    """False after a lost connection: `done` may lack what an answer said that never came."""
    locked: int = 0
    """How many were left alone because somebody holds them."""
    refused: int = 0
    refusal: str | None = None
    """Of the first message that was refused: why."""
    unavailable: list[int] = field(default_factory=list)
    """Fragments whose store is away; run again when it is back."""


class GoingThrough:
    """One run, step by step."""

    def __init__(
        self,
        entity: ManagedEntity,
        operation: str,
        fields: Mapping[object, object],
        bounds: Bounds,
    ) -> None:
        self.progress = Progress()
        self._entity = entity
        self._operation = operation
        self._fields = fields
        self._bounds = bounds
        self._stretches: deque[Stretch] = deque()
        # Fragments that could not be asked just now; each is tried once more, in the end.
        self._postponed: set[int] = set()
        self._next_at = 0.0

    def begin(self, deadline: float) -> Step[None]:
        """See how much there is."""
        if self._bounds.sequences is not None:
            self._stretches.extend(self.stretches_of(sorted(set(self._bounds.sequences))))
            self.progress.total = sum(len(each.named or ()) for each in self._stretches)
            return
        extent = yield from self._entity.extent(deadline)
        self.progress.total = extent.messages
        until = self._bounds.until_sequence
        for fragment, end in enumerate(extent.last_sequences):
            if end is None:
                self.progress.unavailable.append(fragment)
                continue
            first = max(self._bounds.from_sequence, fragment << COUNTER_BITS)
            last = end if until is None else min(end, until)
            if first <= last:
                self._stretches.append(Stretch(first, last))

    def stretches_of(self, numbers: Sequence[int]) -> Iterator[Stretch]:
        """Cut rising numbers into stretches that are worth going through as one."""
        some: list[int] = []
        for number in numbers:
            if some and (number - some[-1] > _GAP_MAX or len(some) == PART_MAX):
                yield Stretch(some[0], some[-1], tuple(some))
                some = []
            some.append(number)
        if some:
            yield Stretch(some[0], some[-1], tuple(some))

    def fields_of(self, stretch: Stretch) -> dict[object, object]:
        """Return what a request for a stretch says beside where it is."""
        if stretch.named is None:
            return dict(self._fields)
        return {**self._fields, "sequence-numbers": numbers_array(stretch.named)}

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done."""
        return not self._stretches or self._left() == 0

    def rest(self) -> Step[None]:
        """Wait for as long as the rate asks for."""
        if self._bounds.rate is not None:
            yield from pause(self._next_at)

    def step(self, deadline: float) -> Step[None]:
        """Ask for the next part."""
        stretch = self._stretches[0]
        body: dict[object, object] = {
            **self.fields_of(stretch),
            "from-sequence-number": Long(stretch.first),
            "until-sequence-number": Long(stretch.last),
            "message-count": Int(self._part()),
        }
        began_at = yield Flush()
        try:
            # With a count, what a lost answer said is needed: asking again might go beyond it.
            part = yield from self._entity.pass_through(
                self._operation, body, deadline, is_repeatable=self._bounds.count is None
            )
        except ServerBusy:
            self._postpone()
            return
        self._stretches.popleft()
        if part.next_sequence is not None:
            rest = stretch.behind(part.next_sequence)
            if rest.named is None or rest.named:
                self._stretches.appendleft(rest)
        progress = self.progress
        progress.looked_at += part.looked_at
        progress.done += part.done
        progress.is_exact = progress.is_exact and not part.is_repeated
        progress.locked += part.locked
        progress.refused += part.refused
        progress.refusal = progress.refusal or part.refusal
        if self._bounds.rate is not None:
            self._next_at = max(self._next_at, began_at) + part.done / self._bounds.rate

    def _postpone(self) -> None:
        """Let a fragment wait until the others are done; give it up if it has waited before."""
        fragment = fragment_of(self._stretches[0].first)
        own = [each for each in self._stretches if fragment_of(each.first) == fragment]
        others = [each for each in self._stretches if fragment_of(each.first) != fragment]
        if fragment in self._postponed:
            self.progress.unavailable.append(fragment)
            own = []
        self._postponed.add(fragment)
        self._stretches = deque(others + own)

    def _part(self) -> int:
        part = PART_MAX
        if self._bounds.rate is not None:
            part = min(part, max(1, int(self._bounds.rate * _BURST_SECONDS)))
        left = self._left()
        return part if left is None else min(part, left)

    def _left(self) -> int | None:
        count = self._bounds.count
        return None if count is None else max(0, count - self.progress.done)


OnProgress = Callable[[Progress], None]


def whole_run(
    run: GoingThrough, deadline: Callable[[], float], on_progress: OnProgress | None
) -> Step[Progress]:
    """Go through to the end; every request has its own deadline."""
    yield from run.begin(deadline())
    while not run.is_over:
        yield from run.rest()
        yield from run.step(deadline())
        if on_progress is not None:
            on_progress(run.progress)
    return run.progress


def selected(
    condition: str | None,
    since: datetime | None,
    until: datetime | None,
    *,
    is_dry_run: bool,
) -> dict[object, object]:
    """Return what requests say about which messages are meant."""
    fields: dict[object, object] = {"dry-run": is_dry_run}
    if condition is not None:
        fields["filter"] = condition
    if since is not None:
        fields["enqueued-since"] = instant(since)
    if until is not None:
        fields["enqueued-until"] = instant(until)
    return fields
