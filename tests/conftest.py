"""What every test may ask for: a served process, and clients that nobody here wrote.

    endpoint     the address of one `foldb serve` for the whole session
    client       boto3's client for it: attribute values as on the wire
    resource     boto3's resource for it: attribute values as in Python
    make_table   a table for one test, named by chance, so that tests never meet

`--endpoint URL` runs the tests that use these against anything else that speaks DynamoDB, `--partitions N` against a
database that is divided. A module that is marked `divided` is run against both, whatever is said.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from hypothesis import HealthCheck, settings

from tests.support.positions import Positions
from tests.support.served import served
from tests.support.tables import MakeTable, table_request
from tests.unit.project.driven import Driven

REGION = "us-east-1"

# A client must not look for an account, a profile or a region on the machine that runs the tests.
os.environ.update(
    AWS_ACCESS_KEY_ID="key",
    AWS_SECRET_ACCESS_KEY="secret",
    AWS_DEFAULT_REGION=REGION,
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
)


# A property is true or not, however busy the machine. Where CI is set, hypothesis has a profile of its own for that.
if not os.environ.get("CI"):
    settings.register_profile("foldb", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("foldb")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--endpoint", help="test this endpoint instead of a server of our own")
    parser.addoption("--partitions", type=int, default=1, help="divide the database of our own into so many")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--endpoint"):
        config.pluginmanager.register(Driven(Path(__file__).resolve().parents[1]), "driven")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "endpoint" in metafunc.fixturenames:
        given: int = metafunc.config.getoption("--partitions")
        is_ours = not metafunc.config.getoption("--endpoint")
        several = [1, 8] if is_ours and metafunc.definition.get_closest_marker("divided") else [given]
        names = [f"{count} partitions" if count > 1 else pytest.HIDDEN_PARAM for count in several]
        metafunc.parametrize("endpoint", several, ids=names, indirect=True, scope="session")


# Folders whose files take long, though they hold few tests.
_LONG = ("simulator", "cluster", "kafka", "crash", "several", "histories")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, or one worker would be at it when the other has nothing left."""
    items.sort(key=lambda item: item.path.parent.name not in _LONG)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where CI is set a skipped test is a failed one: that machine is to have all that the tests need."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    if given := request.config.getoption("--endpoint"):
        yield str(given)
        return
    options = ["--partitions", str(request.param)]
    with tempfile.TemporaryDirectory(prefix="foldb-") as directory, served(Path(directory), *options) as url:
        yield url


@pytest.fixture(scope="session")
def connect() -> Iterator[Callable[[str], Any]]:
    """boto3's resource for any endpoint: it repeats nothing and checks nothing before it sends."""
    resources = []

    def resource(url: str) -> Any:
        config = Config(
            retries={"total_max_attempts": 1}, parameter_validation=False, max_pool_connections=40
        )
        made = boto3.resource("dynamodb", endpoint_url=url, region_name=REGION, config=config)
        resources.append(made)
        return made

    yield resource
    for made in resources:
        made.meta.client.close()


@pytest.fixture(scope="session")
def resource(connect: Callable[[str], Any], endpoint: str) -> Any:
    resource = connect(endpoint)
    Positions().follow(resource.meta.client)
    return resource


@pytest.fixture(scope="session")
def client(endpoint: str) -> Iterator[Any]:
    config = Config(retries={"total_max_attempts": 1}, parameter_validation=False, max_pool_connections=40)
    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION, config=config)
    yield Positions().follow(client)
    client.close()


@pytest.fixture
def make_table(resource: Any) -> Iterator[MakeTable]:
    made = []

    def make(
        *keys: str,
        gsi: Mapping[str, str] | None = None,
        lsi: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Any:
        name = f"t-{uuid.uuid4().hex[:12]}"
        made.append(resource.create_table(**table_request(name, *keys, gsi=gsi, lsi=lsi, **settings)))
        made[-1].wait_until_exists()
        return made[-1]

    yield make
    for table in made:
        table.delete()
