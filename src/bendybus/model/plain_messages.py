"""Messages that have nothing but a content, and an id where duplicates are looked for, as columns.

Most messages are such, and thousands of them come in a second. Lists are all that is then made and
looked at, in the loop and some milliseconds later by a lane, and not an object for each message
(decisions/0032).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Self, overload

from bendybus.model.message import Message


@dataclass(slots=True)
class PlainMessages(Sequence[Message]):
    """Messages in their order; each is made when it is asked for, and is the asker's own."""

    contents: list[bytes]
    # What stands for the id of each, see `digests.digest_of`; None where nobody looks at ids.
    digests: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> "PlainMessages": ...
    def __getitem__(self, at: int | slice) -> "Message | PlainMessages":
        digests = self.digests
        if isinstance(at, slice):
            return PlainMessages(self.contents[at], None if digests is None else digests[at])
        return Message(self.contents[at], digest=None if digests is None else digests[at])

    def __iter__(self) -> Iterator[Message]:
        digests = repeat(None, len(self)) if self.digests is None else self.digests
        for content, digest in zip(self.contents, digests, strict=True):
            yield Message(content, digest=digest)

    def __iadd__(self, others: "PlainMessages") -> Self:
        self.contents += others.contents
        if self.digests is not None:
            assert others.digests is not None, "all of a queue have them, or none has"
            self.digests += others.digests
        return self

    def chosen(self, places: Sequence[int]) -> "PlainMessages":
        """Return those at some places, which are in their order."""
        if len(places) == len(self):
            return self
        contents, digests = self.contents, self.digests
        return PlainMessages(
            [contents[at] for at in places],
            None if digests is None else [digests[at] for at in places],
        )


def chosen_of(messages: Sequence[Message], places: Sequence[int]) -> list[Message] | PlainMessages:
    """Return the messages at some places, which are in their order; columns stay columns."""
    if isinstance(messages, PlainMessages):
        return messages.chosen(places)
    return [messages[at] for at in places]
