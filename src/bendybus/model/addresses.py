"""What a link's address names.

    [scheme://host]/<entity>[/Subscriptions/<name>][/[$Transfer/]$DeadLetterQueue][/$management]

Names of entities may contain slashes, so suffixes are taken off from the right, whatever their
case.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import SubQueue

CBS: Final = "$cbs"
ADDRESS_LENGTH_MAX: Final = 2048
_SUFFIXES: Final = {
    SubQueue.MAIN: "",
    SubQueue.DEAD_LETTER: "/$DeadLetterQueue",
    SubQueue.TRANSFER_DEAD_LETTER: "/$Transfer/$DeadLetterQueue",
    SubQueue.TRANSFER: "/$Transfer",
}


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved address. `path` is as the client spelled it, without host and suffixes."""

    path: str
    subscription: str | None = None
    sub_queue: SubQueue = SubQueue.MAIN
    is_management: bool = False

    @property
    def is_cbs(self) -> bool:
        """Whether it is the node that takes tokens."""
        return self.path == CBS

    @property
    def resource(self) -> str:
        """The whole path, as tokens and errors name it, without the management node."""
        subscription = "" if self.subscription is None else f"/Subscriptions/{self.subscription}"
        return f"{self.path}{subscription}{_SUFFIXES[self.sub_queue]}"

    def is_same_node(self, other: "Address") -> bool:
        """Whether both name the same node, however they spell it."""
        return (
            self.resource.lower() == other.resource.lower()
            and self.is_management is other.is_management
        )


def parse_address(address: object) -> Address:
    """Take an address apart. Raises `ArgumentInvalid` when it cannot be one."""
    if not isinstance(address, str) or not address:
        raise ArgumentInvalid("The link has no address; name a queue.")
    if len(address) > ADDRESS_LENGTH_MAX:
        raise ArgumentInvalid("The address of the link is too long.")
    path = address
    if "://" in path:
        path = path.split("://", 1)[1].partition("/")[2]
    segments = unquote(path).strip("/").split("/")
    is_management = _ends_with(segments, "$management")
    sub_queue = SubQueue.MAIN
    if _ends_with(segments, "$deadletterqueue"):
        sub_queue = SubQueue.DEAD_LETTER
        if _ends_with(segments, "$transfer"):
            sub_queue = SubQueue.TRANSFER_DEAD_LETTER
    subscription = None
    if [each.lower() for each in segments[1:]][-2:-1] == ["subscriptions"]:
        subscription = segments[-1]
        del segments[-2:]
    name = "/".join(segments)
    if not name:
        raise ArgumentInvalid(f"The address '{address}' names no entity.")
    return Address(name, subscription, sub_queue, is_management)


def _ends_with(segments: list[str], word: str) -> bool:
    """Take a suffix off, if it is there."""
    if len(segments) > 1 and segments[-1].lower() == word:
        segments.pop()
        return True
    return False
