"""From a path to nodes with positions, by the notation that its name ends in."""

from pathlib import Path
from typing import Final

from bendybus.config_file.document import FILE_BYTES_MAX, Node
from bendybus.config_file.json_text import parse_json
from bendybus.config_file.yaml_text import parse_yaml
from bendybus.model.errors import ConfigInvalid

_PARSERS: Final = {".json": parse_json, ".yaml": parse_yaml, ".yml": parse_yaml}


def parse_file(path: Path) -> Node:
    """Read a file of bounded size. Raises `ConfigInvalid`, naming the place."""
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise ConfigInvalid(f"{path}: the name must end in .json, .yaml or .yml")
    return parse(_read_text(path), str(path))


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigInvalid(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
    try:
        # Files from Windows editors may begin with a byte order mark.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path}: is not UTF-8 at byte {error.start}") from None
