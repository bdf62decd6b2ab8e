"""Reading a namespace from Microsoft's emulator Config.json, or from the same keys as YAML."""

from bendybus.config_file.load import Config, load_config

__all__ = ["Config", "load_config"]
