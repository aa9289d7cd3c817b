"""The fixture `dynamodb` for anybody's tests: an empty foldb of their own, in memory.

    def test_a_visit_is_counted(dynamodb):
        table = dynamodb.resource.create_table(...)

`pytest --foldb-partitions 8` divides it, and global indexes follow their tables a moment later, as DynamoDB's do.

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


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """An empty database for one test: `.client`, `.resource`, `.endpoint_url`."""
    from . import serve

    with serve(partitions=request.config.getoption("--foldb-partitions")) as server:
        dynamodb = DynamoDB(server)
        yield dynamodb
        dynamodb.close()
