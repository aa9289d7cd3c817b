"""Fixtures for tests of code that uses DynamoDB: an empty foldb in memory.

    def test_a_visit_is_counted(dynamodb):
        dynamodb.resource.create_table(...)
        application.visit("home")       # its own boto3.client("dynamodb") uses the same database

A fixture sets AWS_ENDPOINT_URL_DYNAMODB, region and key in the environment during its scope, so the application under
test needs no change. The scope of `dynamodb` is a test, of `dynamodb_module` a module, and of `dynamodb_session` the
run.

`pytest --foldb-partitions 8` divides the database. With `--foldb-read-lag 200ms` reads without ConsistentRead may miss
the writes of the last 200 ms, as in DynamoDB, and with `--foldb-index-lag 1s` reads of global indexes those of the last
second: a test fails whose application depends on them. With `foldb_triggers = "triggers"` in pytest's configuration the
triggers of that folder run, and a test waits for them without a sleep:

    def test_an_order_is_counted(dynamodb):
        ...
        dynamodb.wait_for_triggers()

pytest imports this module in every run of every user, so boto3 and the server are imported at the first use.
"""

from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .embedded import Server


@dataclass
class DynamoDB:
    """A running server, with boto3's client and resource."""

    server: "Server"

    @property
    def endpoint_url(self) -> str:
        return self.server.endpoint_url

    @cached_property
    def client(self) -> Any:
        """Return boto3's client, whose attribute values are DynamoDB JSON."""
        import boto3

        return boto3.client("dynamodb", **self.server.boto3)

    @cached_property
    def resource(self) -> Any:
        """Return boto3's resource, whose attribute values are Python values."""
        import boto3

        return boto3.resource("dynamodb", **self.server.boto3)

    def wait_for_triggers(self, timeout: float = 10.0) -> None:
        """Wait until every trigger has handled all changes, including changes that triggers write.

        Raises:
            TimeoutError: A trigger is behind after `timeout` seconds, or does not run. The text names it.
        """
        self.server.wait_for_triggers(timeout)

    def close(self) -> None:
        """Close the client and the resource, if a test used them."""
        if "client" in self.__dict__:
            self.client.close()
        if "resource" in self.__dict__:
            self.resource.meta.client.close()


def _milliseconds(text: str) -> int:
    from .model.durations import milliseconds

    try:
        return milliseconds(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--foldb-partitions",
        type=int,
        metavar="N",
        help="divide the databases of `dynamodb` into N partitions; default: 1",
    )
    parser.addoption(
        "--foldb-read-lag",
        type=_milliseconds,
        default=0,
        metavar="DURATION",
        help="answer eventually consistent reads of tables from a state that is up to this old; default: 0",
    )
    parser.addoption(
        "--foldb-index-lag",
        type=_milliseconds,
        default=0,
        metavar="DURATION",
        help="answer reads of global indexes from a state that is up to this old; default: 0",
    )
    parser.addoption(
        "--foldb-lag-seed",
        type=int,
        default=0,
        metavar="N",
        help="draw the ages of --foldb-read-lag and --foldb-index-lag from this seed; default: 0",
    )
    parser.addini(
        "foldb_triggers", "the folder of the triggers that the databases of `dynamodb` run", type="paths"
    )


# Variables that override the variables of a fixture in the SDKs.
_OVERRIDES = ("AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_PROFILE", "AWS_SESSION_TOKEN")


def _database(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """Serve an empty database, and make the AWS SDKs of this process use it."""
    from . import serve

    option = request.config.getoption
    folders = request.config.getini("foldb_triggers")
    with (
        serve(
            partitions=option("--foldb-partitions"),
            read_lag_ms=option("--foldb-read-lag"),
            index_lag_ms=option("--foldb-index-lag"),
            lag_seed=option("--foldb-lag-seed"),
            triggers=folders[0] if folders else None,
        ) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in _OVERRIDES:
            patch.delenv(name, raising=False)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        dynamodb = DynamoDB(server)
        yield dynamodb
        dynamodb.close()


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """Yield an empty database for one test: `.client`, `.resource`, `.endpoint_url`, `.wait_for_triggers()`."""
    yield from _database(request)


@pytest.fixture(scope="module")
def dynamodb_module(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """Yield an empty database for the tests of one module."""
    yield from _database(request)


@pytest.fixture(scope="session")
def dynamodb_session(request: pytest.FixtureRequest) -> Iterator[DynamoDB]:
    """Yield an empty database for the whole run."""
    yield from _database(request)
