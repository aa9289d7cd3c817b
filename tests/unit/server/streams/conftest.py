"""A client of DynamoDB Streams, and tables that have a stream."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.support.tables import MakeTable

Connect = Callable[[str], Any]


@pytest.fixture(scope="session")
def connect_streams() -> Iterator[Connect]:
    """boto3's client for the streams of any endpoint: it repeats nothing and checks nothing before it sends."""
    clients = []

    def connect(endpoint: str) -> Any:
        config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
        clients.append(
            boto3.client("dynamodbstreams", endpoint_url=endpoint, region_name="us-east-1", config=config)
        )
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def streams(endpoint: str, connect_streams: Connect) -> Any:
    return connect_streams(endpoint)


@pytest.fixture
def make_streamed(make_table: MakeTable) -> Callable[..., Any]:
    """A table with a stream of that view type."""

    def make(*keys: str, view: str = "NEW_AND_OLD_IMAGES", **settings: Any) -> Any:
        return make_table(*(keys or ("pk:S",)), **settings, StreamSpecification=enabled(view))

    return make


def enabled(view: str = "NEW_AND_OLD_IMAGES") -> dict[str, Any]:
    return {"StreamEnabled": True, "StreamViewType": view}
