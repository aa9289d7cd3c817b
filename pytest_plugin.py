"""Fixtures for tests of code that uses DynamoDB: an empty foldb in memory.

    def test_a_visit_is_counted(dynamodb):
        dynamodb.resource.create_table(...)
        application.visit("home")       # its own boto3.client("dynamodb") reaches the same database

A fixture sets AWS_ENDPOINT_URL_DYNAMODB, region and key in the environment while it lives, so the application under
test is redirected without a change. `dynamodb` lives for a test, `dynamodb_module` for a module, `dynamodb_session` for
the run.

`pytest --foldb-partitions 8` divides the database; global indexes then follow their tables a moment later, as
DynamoDB's do. With `foldb_triggers = "triggers"` among pytest's settings the triggers of that folder run, and no test
needs to sleep:

    def test_an_order_is_counted(dynamodb):
        ...
        dynamodb.wait_for_triggers()

pytest loads this module in every run of every user, so boto3 and the server are imported when a test asks for them.
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

    def wait_for_triggers(self, timeout: float = 10.0) -> None:
        """Wait until every trigger has handled everything written so far.

        Raises:
            TimeoutError: They have not after so many seconds; it says which.
        """
        self.server.wait_for_triggers(timeout)

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


# These the SDKs would prefer to the variables that a fixture sets.
_PREFERRED = ("AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_PROFILE", "AWS_SESSION_TOKEN")


def _database(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """Serve an empty database, and redirect the AWS SDKs of this process to it."""
    from . import serve

    partitions = request.config.getoption("--foldb-partitions")
    folders = request.config.getini("foldb_triggers")
    with (
        serve(partitions=partitions, triggers=folders[0] if folders else None) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in _PREFERRED:
            patch.delenv(name, raising=False)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        dynamodb = DynamoDB(server)
        yield dynamodb
        dynamodb.close()


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """An empty database for one test: `.client`, `.resource`, `.endpoint_url`, `.wait_for_triggers()`."""
    yield from _database(request)


@pytest.fixture(scope="module")
def dynamodb_module(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """An empty database for the tests of one module."""
    yield from _database(request)


@pytest.fixture(scope="session")
def dynamodb_session(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """An empty database for the whole run."""
    yield from _database(request)
