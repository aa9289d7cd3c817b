"""A server that runs examples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foldb.embedded import Server
from tests.support.served import foldb
from tests.support.tables import table_request

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


@dataclass
class Running:
    """A server that runs triggers of a folder."""

    server: Server
    resource: Any
    folder: Path

    def table(self, name: str, *keys: str, **settings: Any) -> Any:
        """Create a table; keys are written `name:S`."""
        return self.resource.create_table(**table_request(name, *keys, **settings))

    def items(self, name: str) -> list[dict[str, Any]]:
        """Return all items of a table in a deterministic order."""
        return sorted(self.resource.Table(name).scan()["Items"], key=repr)

    def settle(self) -> None:
        self.server.wait_for_triggers(60)

    def foldb(self, *arguments: str) -> str:
        """Run a `foldb` command on this server and return its output."""
        ran = foldb(*arguments, "--db", self.server.endpoint_url, "--yes")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr
