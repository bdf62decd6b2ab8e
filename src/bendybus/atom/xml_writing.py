"""Texts to XML."""

import re
from typing import Final

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
SCHEMA_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"

_SPECIAL: Final = re.compile('[&<>"\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]')
_REFERENCES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"}
# For what XML cannot hold at all, such as a control character that came over AMQP.
_REPLACEMENT: Final = "\ufffd"


def escape(text: str) -> str:
    """Return the text as it stands in an element or an attribute."""
    return _SPECIAL.sub(lambda found: _REFERENCES.get(found[0], _REPLACEMENT), text)


def text_element(name: str, text: str) -> str:
    """Write an element that holds a text."""
    return f"<{name}>{escape(text)}</{name}>"
