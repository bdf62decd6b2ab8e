"""An edit of one message whose new values were worked out elsewhere, such as by Spark.

A rule's action is one text for all messages; here each message has values of its own, and its body
can be changed as well. What is not named stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bendybus.model.message_view import MessageView
from bendybus.model.rule_actions import Changes, Draft


@dataclass(frozen=True, slots=True)
class GivenEdit:
    """What becomes of one message.

    `system` is by the names that rules may write, and None takes a property away. A property of
    the user keeps the type that it has, where the new value can be one of that type.
    """

    system: Mapping[str, str | None] = field(default_factory=dict)
    user: Mapping[str, object] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    body: bytes | None = None

    def apply(self, view: MessageView) -> Changes:
        """Compute what changes. Raises `FilterFailed`."""
        draft = Draft(view)
        for name, value in self.system.items():
            draft.set_system(name, value)
        for name in self.removed:
            draft.remove_user(name)
        for name, each in self.user.items():
            draft.set_user(name, each)
        return draft.changes(self.body)
