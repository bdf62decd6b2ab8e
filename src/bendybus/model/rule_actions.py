"""What a rule's action does to the copy of a message that the rule lets in.

An action never changes the message: it computes what is to change, and whoever holds the
message applies that. Statements run in order, and each sees what those before it did.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from bendybus.model import filter_tree as tree
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.limits import KEY_LENGTH_MAX
from bendybus.model.message_view import (
    WRITABLE_SYSTEM_PROPERTIES,
    MessageView,
    fold_name,
    system_name,
)
from bendybus.model.rule import SqlAction
from bendybus.model.sql_expressions import (
    Evaluate,
    NewIdentifier,
    Surroundings,
    compile_expression,
)
from bendybus.model.sql_values import FilterFailed, text_of
from bendybus.model.value_conversion import convert_like

# The bound on the ids and keys of a message, as for one that a client sends.
_KEYS: Final = frozenset(
    {"MessageId", "PartitionKey", "ReplyToSessionId", "SessionId", "ViaPartitionKey"}
)


class Written(NamedTuple):
    """A user's property that an action set: the name as the action spells it, and the value."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Changes:
    """What an action changes.

    `system` is by the names of `SYSTEM_PROPERTIES`; None takes the property away. `user` and
    `removed` are by folded names. `body` is the new one, as bytes; actions of rules change none.
    """

    system: Mapping[str, str | None]
    user: Mapping[str, Written]
    removed: frozenset[str]
    body: bytes | None = None

    def merged_user(self, properties: Mapping[str, object]) -> dict[str, object]:
        """Return the user's properties after the changes; existing ones keep their spelling."""
        spelling = {fold_name(name): name for name in properties}
        changed = self.removed | self.user.keys()
        kept = {name: v for name, v in properties.items() if fold_name(name) not in changed}
        return kept | {spelling.get(key, new.name): new.value for key, new in self.user.items()}


class CompiledAction:
    """An action ready to be applied."""

    def __init__(self, statements: Sequence["_Perform"]) -> None:
        self._statements = statements

    def apply(self, view: MessageView) -> Changes:
        """Compute what changes. Raises `FilterFailed`."""
        draft = Draft(view)
        for perform in self._statements:
            perform(draft)
        return draft.changes()


def compile_action(described: SqlAction, *, new_id: NewIdentifier) -> CompiledAction:
    """Make an action that can be applied. Raises `ArgumentInvalid` if its text has no meaning."""
    from bendybus.model.filter_grammar import parse_action

    surroundings = Surroundings.of(described, new_id)
    statements = parse_action(described.expression)
    return CompiledAction([_statement(each, surroundings) for each in statements])


class Draft:
    """A message with the changes made so far: what the next statement sees."""

    def __init__(self, view: MessageView) -> None:
        self._view = view
        self.user = dict(view.user)
        self._system: dict[str, str | None] = {}
        self._written: dict[str, Written] = {}
        self._removed: set[str] = set()

    def system(self, name: str) -> object:
        """The value of a property of the system as it is by now."""
        return self._system[name] if name in self._system else self._view.system(name)

    def set_system(self, name: str, value: str | None) -> None:
        """Write a property of the system, or take it away. Raises `FilterFailed`."""
        if value is None and name == "MessageId":
            raise FilterFailed("sys.MessageId cannot be without a value")
        if value is not None and name in _KEYS and len(value) > KEY_LENGTH_MAX:
            raise FilterFailed(f"sys.{name} would have more than {KEY_LENGTH_MAX} characters")
        self._system[name] = value

    def set_user(self, name: str, value: object) -> None:
        """Write a user's property; it keeps the type that it has, where that is possible."""
        key = fold_name(name)
        self.user[key] = convert_like(value, self.user.get(key))
        self._written[key] = Written(name, self.user[key])

    def remove_user(self, name: str) -> None:
        """Take a user's property away."""
        key = fold_name(name)
        self.user.pop(key, None)
        self._written.pop(key, None)
        self._removed.add(key)

    def changes(self, body: bytes | None = None) -> Changes:
        """Return what was changed, and the new body if it has one."""
        return Changes(self._system, self._written, frozenset(self._removed), body)


_Perform = Callable[[Draft], None]


def _statement(node: tree.Statement, surroundings: Surroundings) -> _Perform:
    match node:
        case tree.SetProperty(tree.Property("sys", name), value):
            return _set_system(writable_name(name), compile_expression(value, surroundings))
        case tree.SetProperty(tree.Property(_, name), value):
            return _set_user(name, compile_expression(value, surroundings))
        case tree.RemoveProperty(tree.Property("sys", name)):
            return _remove_system(writable_name(name))
        case tree.RemoveProperty(tree.Property(_, name)):
            return lambda draft: draft.remove_user(name)
        case _:
            assert_never(node)


def _set_system(name: str, value: Evaluate) -> _Perform:
    return lambda draft: draft.set_system(name, text_of(value(draft)))


def _set_user(name: str, value: Evaluate) -> _Perform:
    return lambda draft: draft.set_user(name, value(draft))


def _remove_system(name: str) -> _Perform:
    if name == "MessageId":
        raise ArgumentInvalid("sys.MessageId cannot be removed", argument="expression")
    return lambda draft: draft.set_system(name, None)


def writable_name(name: str) -> str:
    """Return the one spelling of a property that may be written. Raises `ArgumentInvalid`."""
    known = system_name(name)
    if known is None:
        raise ArgumentInvalid(f"there is no system property {name}", argument="expression")
    if known not in WRITABLE_SYSTEM_PROPERTIES:
        raise ArgumentInvalid(f"the system property {known} is read-only", argument="expression")
    return known
