"""YAML read into nodes with positions, by PyYAML's safe loader."""

import yaml

from bendybus.config_file.document import (
    DEPTH_MAX,
    NODES_MAX,
    Entry,
    ListNode,
    MapNode,
    Node,
    Place,
    Scalar,
    ScalarNode,
)
from bendybus.model.errors import ConfigInvalid


def parse_yaml(text: str, file: str) -> Node:
    """Read the one document of the text. Raises `ConfigInvalid` where it stops being YAML."""
    try:
        return _YamlReader(text, file).read_document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _place(mark, file).refuse(f"not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigInvalid(f"{file}: not YAML: {error}") from None


class _YamlReader:
    """Turns PyYAML's nodes into ours, counting them, since aliases can multiply without end."""

    def __init__(self, text: str, file: str) -> None:
        self._loader = yaml.SafeLoader(text)
        self._file = file
        self._nodes = 0

    def read_document(self) -> Node:
        root = self._loader.get_single_node()
        if root is None:
            return ScalarNode(Place(self._file, 1, 1), None)
        return self._read(root, depth=0)

    def _read(self, node: yaml.Node, depth: int) -> Node:
        place = _place(node.start_mark, self._file)
        self._nodes += 1
        if depth > DEPTH_MAX:
            raise place.refuse(f"nested more than {DEPTH_MAX} deep")
        if self._nodes > NODES_MAX:
            raise place.refuse(f"more than {NODES_MAX} values")
        if isinstance(node, yaml.MappingNode):
            entries = (self._read_entry(key, value, depth) for key, value in node.value)
            return MapNode(place, tuple(entries))
        if isinstance(node, yaml.SequenceNode):
            return ListNode(place, tuple(self._read(item, depth + 1) for item in node.value))
        return ScalarNode(place, self._read_scalar(node, place))

    def _read_entry(self, key: yaml.Node, value: yaml.Node, depth: int) -> Entry:
        place = _place(key.start_mark, self._file)
        if not isinstance(key, yaml.ScalarNode):
            raise place.refuse("a key must be a text")
        return Entry(place, key.value, self._read(value, depth + 1))

    def _read_scalar(self, node: yaml.Node, place: Place) -> Scalar:
        try:
            value = self._loader.construct_object(node)
        except ValueError as error:
            raise place.refuse(f"not a value: {error}") from None
        # Dates and the like are none of ours: what was written is taken as text.
        return value if isinstance(value, str | int | float) or value is None else str(node.value)


def _place(mark: yaml.Mark | None, file: str) -> Place:
    return Place(file, 1, 1) if mark is None else Place(file, mark.line + 1, mark.column + 1)
