"""Where a store is that a server keeps: a URL, read without the driver, shown without secrets.

The driver reads the URL itself when it connects. What is read here is what must be known before:
that it is one, which database it names, and what of it may be printed.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from bendybus.model.errors import SettingInvalid

USUAL_PORT: Final = "5432"
_EXAMPLE: Final = "postgresql://user@host:5432/database"
_URL: Final = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?"
    r"(?P<hosts>[^/?@]*)"
    r"(?:/(?P<database>[^/?]*))?"
    r"(?:\?(?P<options>.*))?"
)
_SECRET_OPTIONS: Final = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A database on a PostgreSQL server, or on several of which one is the primary.

    Made by `read_place`. Equal if the same database is named, whoever logs in and however.
    """

    hosts: tuple[tuple[str, str], ...]
    database: str
    # With the password, if it has one.
    url: str = field(compare=False, repr=False)
    # Without it.
    shown: str = field(compare=False)

    def __str__(self) -> str:
        return self.shown


def read_place(text: str, source: str) -> StorePlace:
    """Read a URL; `source` says where it was given. Raises `SettingInvalid` without repeating it.

    The text may hold a password wherever the mistake is, so a refusal shows none of it.
    """
    url = text.strip()
    if not url.startswith(("postgresql://", "postgres://")):
        raise SettingInvalid(
            f"{source} must be the URL of a PostgreSQL database, such as {_EXAMPLE}, which begins"
            " with postgresql://"
        )
    found = _URL.fullmatch(url)
    if found is None or any(character.isspace() for character in url):
        raise SettingInvalid(
            f"{source} is no URL of the form {_EXAMPLE}; write characters such as @ : / ? and"
            " spaces of a password as %40 %3A %2F %3F and %20"
        )
    options = dict(parse_qsl(found["options"] or "", keep_blank_values=True))
    database = options.get("dbname") or unquote(found["database"] or "")
    if not database:
        raise SettingInvalid(f"{source} names no database; write it behind the host: {_EXAMPLE}")
    return StorePlace(_hosts(found["hosts"], options, source), database, url, _shown(found))


def _hosts(text: str, options: dict[str, str], source: str) -> tuple[tuple[str, str], ...]:
    """Return hosts and ports in the order of their names: the order in the URL is no difference."""
    names, ports = [], []
    for each in text.split(","):
        host, port = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(.*))?", each).groups()  # type: ignore[union-attr]  # matches any text
        names.append(unquote(host))
        ports.append(port or USUAL_PORT)
    if "host" in options:
        names = options["host"].split(",")
        ports = [ports[0]] * len(names)
    if "port" in options:
        given = options["port"].split(",")
        ports = given if len(given) == len(names) else [given[0]] * len(names)
    if not all(port.isascii() and port.isdecimal() for port in ports):
        raise SettingInvalid(f"{source} has a port that is no number; {_EXAMPLE} is of the form")
    known = [name.lower() or "localhost" for name in names]
    return tuple(sorted(zip(known, ports, strict=True)))


def _shown(found: "re.Match[str]") -> str:
    """Write the URL without its secrets."""
    user = f"{found['user']}@" if found["user"] else ""
    database = f"/{found['database']}" if found["database"] is not None else ""
    options = [
        f"{name}={quote(value, safe='/,:')}"
        for name, value in parse_qsl(found["options"] or "", keep_blank_values=True)
        if name not in _SECRET_OPTIONS
    ]
    told = f"?{'&'.join(options)}" if options else ""
    return f"postgresql://{user}{found['hosts']}{database}{told}"
