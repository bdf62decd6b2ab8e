"""XML to a tree, for documents that anybody may have sent.

Nothing is read that could be made to grow: a document type declaration, and with it every entity,
is refused when it begins, and size, depth and number of elements are bounded. So the time and
memory that a document takes are bounded by its bytes.

Namespaces are read and left out of names. The clients use different prefixes and defaults for
them, one even moves them by replacing text, and no two elements here differ by them alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from bendybus.model.errors import ArgumentInvalid

_SEPARATOR: Final = " "  # between a namespace and a name: neither may contain it


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a document may be."""

    bytes_max: int
    elements_max: int
    depth_max: int = 24


# A description with all that it can have is a tenth of it.
REQUEST: Final = Bounds(bytes_max=256 * 1024, elements_max=10_000)
# A page of a hundred entities, each with twelve access rules.
ANSWER: Final = Bounds(bytes_max=16 * 1024 * 1024, elements_max=200_000)


@dataclass(slots=True)
class Element:
    """An element: its name without namespace, attributes likewise, text and children."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def find(self, name: str) -> "Element | None":
        """Return the first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def find_all(self, name: str) -> Iterator["Element"]:
        """Return the children of that name."""
        return (child for child in self.children if child.name == name)

    def text_of(self, name: str) -> str | None:
        """Return the text of the first child of that name."""
        child = self.find(name)
        return None if child is None else child.text

    @property
    def type_name(self) -> str:
        """The local part of its `type`, such as `SqlFilter` or `int`; empty without one."""
        return self.attributes.get("type", "").rpartition(":")[2]

    @property
    def is_nil(self) -> bool:
        """Whether it says that it has no value."""
        return self.attributes.get("nil", "").strip() in {"true", "1"}


def parse(document: bytes, bounds: Bounds = REQUEST) -> Element:
    """Read a document; return its root. Raises `ArgumentInvalid`."""
    if len(document) > bounds.bytes_max:
        raise ArgumentInvalid(f"The XML has more than {bounds.bytes_max} bytes.")
    # Whatever the document declares: clients write UTF-8, and some declare another encoding. Left
    # to itself the parser would ask Python for any of that name.
    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    parser.buffer_text = True
    tree = _Tree(bounds)
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.add_text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        raise ArgumentInvalid(f"The body is not well-formed XML: {error}.") from None
    assert tree.root is not None, "a well-formed document has a root"
    return tree.root


class _Tree:
    """Takes what the parser finds."""

    def __init__(self, bounds: Bounds) -> None:
        self.root: Element | None = None
        self._bounds = bounds
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > self._bounds.elements_max:
            raise ArgumentInvalid(f"The XML has more than {self._bounds.elements_max} elements.")
        if len(self._open) >= self._bounds.depth_max:
            raise ArgumentInvalid(f"The XML is more than {self._bounds.depth_max} elements deep.")
        local = {_local(key): value for key, value in attributes.items()}
        element = Element(_local(name), local)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def add_text(self, text: str) -> None:
        self._texts[-1].append(text)


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]


def _refuse_doctype(*_: object) -> NoReturn:
    raise ArgumentInvalid("The XML has a document type declaration; leave it out.")
