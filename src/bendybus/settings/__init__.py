"""Every option of the broker, settled once before it starts.

A value comes from the first of these that gives one: the command line, the environment
(`BENDYBUS_…`), the configuration file, the default in `settings/settled.py`. Each source is read
into `Choices`, and `settle` folds them into `Settings`, which nothing changes afterwards.
"""

from bendybus.settings.choices import (
    Choices,
    choices_from_environment,
    places_from,
    plain_from,
    port_or_none,
)
from bendybus.settings.settle import settle
from bendybus.settings.settled import (
    DEFAULT_RULE_NAME,
    DEVELOPMENT_KEY,
    LOOPBACK,
    NO_DOOR,
    ChosenNamespace,
    LogFormat,
    LogLevel,
    MetricsReaders,
    Plain,
    RunningPorts,
    Settings,
    TlsFiles,
    is_loopback,
)

__all__ = [
    "DEFAULT_RULE_NAME",
    "DEVELOPMENT_KEY",
    "LOOPBACK",
    "NO_DOOR",
    "Choices",
    "ChosenNamespace",
    "LogFormat",
    "LogLevel",
    "MetricsReaders",
    "Plain",
    "RunningPorts",
    "Settings",
    "TlsFiles",
    "choices_from_environment",
    "is_loopback",
    "places_from",
    "plain_from",
    "port_or_none",
    "settle",
]
