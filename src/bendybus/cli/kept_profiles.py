"""Brokers that one works with often, by name: where they are kept, and which one is meant."""

import json
import os
from pathlib import Path
from typing import Any, Final

from bendybus.cli.failure import CommandFailed

# Which variable, read by the options of every command, a part of a profile stands for.
_VARIABLES: Final = {
    "connection_string": "BENDYBUS_CONNECTION_STRING",
    "management_url": "BENDYBUS_MANAGEMENT_URL",
    "authority": "BENDYBUS_AUTHORITY",
}


def profile_file() -> Path:
    """Return where profiles are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "bendybus" / "profiles.json"


def take_profile(name: str | None) -> None:
    """Let a profile, the one in use if none is named, say what the environment does not.

    An option counts before a variable, and a variable before the profile in use; a profile that
    is named counts before variables.
    """
    kept = read_profiles()
    chosen = name or kept["in_use"]
    if chosen is None:
        return
    found = kept["profiles"].get(chosen)
    if found is None:
        raise CommandFailed(f"there is no profile '{chosen}'; `bendybus profile list` shows them")
    # A broker named by a variable is not to be asked with the key or at the address of another.
    if name is None and any(variable in os.environ for variable in _VARIABLES.values()):
        return
    for part, variable in _VARIABLES.items():
        os.environ.pop(variable, None)
        if found.get(part):
            os.environ[variable] = found[part]


def read_profiles() -> dict[str, Any]:
    """Return every profile by its name, and which is in use. Raises `CommandFailed`."""
    path = profile_file()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"profiles": {}, "in_use": None}
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get("profiles"), dict):
        raise CommandFailed(f"{path} is not a file of profiles; mend it, or delete it")
    return {"profiles": kept["profiles"], "in_use": kept.get("in_use")}


def complete_profile(incomplete: str) -> list[str]:
    """Return the profiles whose names begin so, for the shell."""
    try:
        names: dict[str, Any] = read_profiles()["profiles"]
    except CommandFailed:
        return []
    return [name for name in names if name.startswith(incomplete)]


def write_profiles(kept: dict[str, Any]) -> None:
    """Replace the file at once, so that it is whole and nobody else's at every moment."""
    path = profile_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        json.dump(kept, written, indent=2)
        written.flush()
        os.fsync(written.fileno())
    new.replace(path)
