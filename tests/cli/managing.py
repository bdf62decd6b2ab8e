"""Commands that manage a real broker, and what they printed."""

import json
from typing import Any

from tests.cli.command import run

KEY = "SAS_KEY_VALUE"


class Commands:
    """Commands for one broker."""

    def __init__(self, amqp_port: int, http_port: int) -> None:
        self.connection = (
            f"Endpoint=sb://127.0.0.1:{amqp_port};SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
        )
        self.url = f"http://127.0.0.1:{http_port}"

    def run(self, *arguments: str, connection: str | None = None) -> tuple[int, str, str]:
        done = run(
            *arguments,
            BENDYBUS_CONNECTION_STRING=connection or self.connection,
            BENDYBUS_MANAGEMENT_URL=self.url,
        )
        return done.returncode, done.stdout, done.stderr

    def text(self, *arguments: str) -> str:
        code, output, errors = self.run(*arguments)
        assert code == 0, errors
        return output

    def json(self, *arguments: str) -> Any:
        return json.loads(self.text(*arguments, "--output", "json"))

    def refusal(self, *arguments: str) -> str:
        code, output, errors = self.run(*arguments)
        assert code == 1, output
        assert errors.startswith("bendybus: ")
        assert errors.count("\n") == 1, "one line"
        return errors
