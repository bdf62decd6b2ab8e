"""Texts with U+0000, which PostgreSQL does not take: not in TEXT, and not in JSON.

Ids of sessions, partition keys and names may have it. It is kept as U+FFFF and a "0", and U+FFFF,
which is no character of any language, as U+FFFF and a "1". So every text has one form there, texts
that are the same stay so, and the many that have neither cost one look.
"""

import re
from typing import Final

_NUL: Final = "\0"
_SIGN: Final = "\uffff"
# What every text has in it, encoded, that is kept in another form.
KEPT_SIGN: Final = _SIGN.encode()
_NUL_KEPT: Final = f"{_SIGN}0"
_SIGN_KEPT: Final = f"{_SIGN}1"
# In JSON, either may be written as an escape; a backslash before a backslash begins none.
_ESCAPES: Final = re.compile(r"\\(?:u0000|u[fF]{4}|.)|" + _SIGN, re.DOTALL)
_KEPT: Final = {"\\u0000": _NUL_KEPT, "\\uffff": _SIGN_KEPT, _SIGN: _SIGN_KEPT}
_JSON_SIGNS: Final = ("\\u0000", "\\uffff", "\\uFFFF", _SIGN)


def to_store(text: str) -> str:
    """Return a text as it is kept."""
    if _NUL in text or _SIGN in text:
        return text.replace(_SIGN, _SIGN_KEPT).replace(_NUL, _NUL_KEPT)
    return text


def to_store_json(text: str) -> str:
    """Return JSON whose texts are as they are kept."""
    if any(sign in text for sign in _JSON_SIGNS):
        return _ESCAPES.sub(_kept, text)
    return text


def from_store(text: str) -> str:
    """Return a text as it was before it was kept."""
    if _SIGN in text:
        return text.replace(_NUL_KEPT, _NUL).replace(_SIGN_KEPT, _SIGN)
    return text


def from_store_json(text: str) -> str:
    """Return JSON whose texts are as they were before they were kept."""
    if _SIGN in text:
        return text.replace(_NUL_KEPT, "\\u0000").replace(_SIGN_KEPT, _SIGN)
    return text


def _kept(found: re.Match[str]) -> str:
    escape = found[0]
    return _KEPT.get(escape.lower() if escape.startswith("\\u") else escape, escape)
