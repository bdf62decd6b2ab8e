"""`TokenIssuer` of a namespace: whose bearer tokens open it.

TokenIssuer:
  Issuer: https://login.example.com/tenant/v2.0      as tokens name it in `iss`
  Audience: https://servicebus.azure.net/            as tokens name it in `aud`
  KeysUrl: https://login.example.com/tenant/keys     or KeysFile, a path
  Roles:                                             the service's three, if there are none here
  - {Role: order-desk, Rights: [Send], Entity: orders}
"""

import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bendybus.config_file.access import read_rights
from bendybus.config_file.section import Section, Value
from bendybus.model.errors import BusError
from bendybus.model.limits import check_entity_name
from bendybus.model.token_issuer import SERVICE_ROLES, RoleRights, TokenIssuer

_KEYS: Final = ("Issuer", "Audience", "KeysUrl", "KeysFile", "Roles")


def read_token_issuer(value: Value, folder: Path) -> TokenIssuer:
    """Read the section; the path of a file counts from the folder."""
    section = value.section(_KEYS)
    roles = tuple([_read_role(each) for each in section.items("Roles")])
    return TokenIssuer(
        section.need("Issuer").text(),
        section.need("Audience").text(),
        _read_keys(section, folder),
        roles or SERVICE_ROLES,
    )


def _read_keys(section: Section, folder: Path) -> str:
    url, path = section.get("KeysUrl"), section.get("KeysFile")
    if (url is None) == (path is None):
        raise section.whole.refuse("give one of KeysUrl and KeysFile")
    if path is not None:
        file = folder / path.text()
        # An issuer may be away for a while; a file that is not there is a mistake.
        if not file.is_file():
            raise path.refuse(f"there is no file {file}")
        return str(file)
    assert url is not None, "one of both is there"
    text = url.text()
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        raise url.refuse(f"{text!r} is not a URL") from None
    # Whoever can change keys on their way can open the broker.
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise url.refuse("must begin with https://; http:// is for this machine only")
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_role(value: Value) -> RoleRights:
    section = value.section(("Role", "Rights", "Entity"))
    rights, entity = section.need("Rights"), section.get("Entity")
    role = RoleRights(
        section.need("Role").text(),
        read_rights(rights),
        None if entity is None else entity.text(),
    )
    if not role.rights:
        raise rights.refuse("names no right; give Send, Listen or Manage")
    if entity is not None:
        try:
            check_entity_name(entity.text())
        except BusError as error:
            raise entity.refuse(error.message) from None
    return role
