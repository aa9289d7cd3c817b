"""A fixture of the tests that run against a database in memory, in a folder, and with several partitions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config

import foldb
from tests.support.history import forked_history as forked_history

WRITERS = 16  # threads that may use the client at once


class Served(NamedTuple):
    """A served database; the client sends each request once, without checking it."""

    url: str
    client: Any
    partitions: int


@pytest.fixture(
    scope="module",
    params=[(False, 1), (True, 1), (True, 4)],
    ids=["in memory", "a folder", "4 partitions"],
)
def each_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    on_disk, partitions = request.param
    folder = tmp_path_factory.mktemp("served") if on_disk else None
    with foldb.serve(folder, partitions=partitions) as server:
        config = Config(
            retries={"total_max_attempts": 1}, parameter_validation=False, max_pool_connections=WRITERS
        )
        client = boto3.client("dynamodb", **server.boto3, config=config)
        yield Served(server.endpoint_url, client, partitions)
        client.close()
