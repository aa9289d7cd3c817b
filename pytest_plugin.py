"""The fixture `dynamodb` for anybody's tests: an empty foldb of their own, in memory.

    def test_a_visit_is_counted(dynamodb):
        table = dynamodb.resource.create_table(...)

`pytest --foldb-partitions 8` divides it, and global indexes follow their tables a moment later, as DynamoDB's do.
With `foldb_triggers = "triggers"` among pytest's settings the triggers of that folder run, and no test needs to sleep:

    def test_an_order_is_counted(dynamodb):
        ...
        dynamodb.settle()

pytest loads this module wherever foldb is installed, so boto3 and the server are imported when a test asks for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .embedded import Server


@dataclass
class DynamoDB:
    """A running server, and boto3's two ways to talk to it."""

    server: "Server"

    @property
    def endpoint_url(self) -> str:
        return self.server.endpoint_url

    @cached_property
    def client(self) -> Any:
        """boto3's client: attribute values as on the wire."""
        import boto3

        return boto3.client("dynamodb", **self.server.boto3)

    @cached_property
    def resource(self) -> Any:
        """boto3's resource: attribute values as in Python."""
        import boto3

        return boto3.resource("dynamodb", **self.server.boto3)

    def settle(self, timeout: float = 10.0) -> None:
        """Wait until every trigger has handled everything written so far.

        Raises:
            TimeoutError: They have not after so many seconds; it says which.
        """
        self.server.settle(timeout)

    def close(self) -> None:
        """Close the clients that were made."""
        if "client" in self.__dict__:
            self.client.close()
        if "resource" in self.__dict__:
            self.resource.meta.client.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--foldb-partitions", type=int, metavar="N", help="divide the databases of `dynamodb` into so many"
    )
    parser.addini(
        "foldb_triggers", "the folder of the triggers that the databases of `dynamodb` run", type="paths"
    )


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """An empty database for one test: `.client`, `.resource`, `.endpoint_url`, `.settle()`."""
    from . import serve

    partitions = request.config.getoption("--foldb-partitions")
    folders = request.config.getini("foldb_triggers")
    with serve(partitions=partitions, triggers=folders[0] if folders else None) as server:
        dynamodb = DynamoDB(server)
        yield dynamodb
        dynamodb.close()
