"""Fixtures and hooks of all tests: a served process, and clients by other authors.

    endpoint     the address of one `foldb serve` for the whole session
    client       boto3's client for it: attribute values as on the wire
    resource     boto3's resource for it: attribute values as in Python
    make_table   a table for one test, with a random name; make_module_table: for a module whose tests only read it
    run_async    runs `async def test_...` functions

`--endpoint URL` runs the tests that use these against any other server with DynamoDB's API, `--partitions N` against
a database with N partitions. A module with the marker `divided` runs against both, whichever option is given.
"""

import asyncio
import gc
import inspect
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeAlias, cast

import boto3
import pytest
from botocore.config import Config
from hypothesis import HealthCheck, settings

from foldb.version import build
from tests.support.positions import Positions
from tests.support.served import served
from tests.support.surprises import Surprises
from tests.support.tables import MakeTable, table_request
from tests.unit.project.driven import Driven

REGION = "us-east-1"

RunAsync: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]

# A client must not find an account, a profile or a region on the machine that runs the tests.
os.environ.update(
    AWS_ACCESS_KEY_ID="key",
    AWS_SECRET_ACCESS_KEY="secret",
    AWS_DEFAULT_REGION=REGION,
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
)

# The tests start hundreds of programs, and a start without compiled modules costs 0.2 s more of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A property is true or not, however busy the machine. With CI set, hypothesis uses its own profile for that.
if not os.environ.get("CI"):
    settings.register_profile("foldb", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("foldb")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--endpoint", help="test this endpoint instead of a foldb that the tests start")
    parser.addoption(
        "--partitions",
        type=int,
        default=1,
        help="the number of partitions of the database that the tests start",
    )


def pytest_configure(config: pytest.Config) -> None:
    wanted = os.environ.get("FOLDB_TEST_BUILD", build())
    if build() != wanted:
        raise pytest.UsageError(f"the package on the path is {build()}, and FOLDB_TEST_BUILD is {wanted}")
    config.pluginmanager.register(Surprises(), "surprises")
    if not config.getoption("--endpoint"):
        config.pluginmanager.register(Driven(Path(__file__).resolve().parents[1]), "driven")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hide all tests from the cycle collector, which would spend 2 s on them in the collection, and 0.2 s each time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: Any) -> None:
    """Give each `async def test_...` the fixture that runs it."""
    if inspect.iscoroutinefunction(obj) and collector.istestfunction(obj, name):
        pytest.mark.usefixtures("run_async")(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def test_...`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    run = cast(RunAsync, pyfuncitem.funcargs["run_async"])
    run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def run_async() -> RunAsync:
    """Run a coroutine to its end. The conftest.py of a folder may replace it, for example to use virtual time."""
    return asyncio.run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "endpoint" in metafunc.fixturenames:
        given: int = metafunc.config.getoption("--partitions")
        is_ours = not metafunc.config.getoption("--endpoint")
        several = [1, 8] if is_ours and metafunc.definition.get_closest_marker("divided") else [given]
        names = [f"{count} partitions" if count > 1 else pytest.HIDDEN_PARAM for count in several]
        metafunc.parametrize("endpoint", several, ids=names, indirect=True, scope="session")


# Folders whose files take long, though they hold few tests, and those whose tests mostly wait for Kafka and for nodes.
_LONG = (
    "simulator",
    "members",
    "damage",
    "crash",
    "several",
    "histories",
    "fuzz",
    "hostile",
    "oracle",
    "workers",
)
_WAITING = ("cluster", "kafka", "audits")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start the longest files first, so that no worker of pytest-xdist is idle at the end.

    Files that wait alternate with files that compute, so that the workers do not wait at the same time.
    """
    if build() == "compiled":
        left_out = [each for each in items if each.get_closest_marker("interpreted")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if not each.get_closest_marker("interpreted")]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [path for path in files if path.parent.name in _WAITING]
    others = [path for path in files if path.parent.name not in _WAITING]
    others.sort(key=lambda path: path.parent.name not in _LONG)
    order = chain.from_iterable(zip_longest(waiting, others))
    items[:] = [item for path in order if path is not None for item in files[path]]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI set a skipped test is a failure: that machine must have everything that the tests need."""
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
    """boto3's resource for any endpoint, without retries and without client-side validation."""
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
    with _tables(resource) as make:
        yield make


@pytest.fixture(scope="module")
def make_module_table(resource: Any) -> Iterator[MakeTable]:
    with _tables(resource) as make:
        yield make


@contextmanager
def _tables(resource: Any) -> Iterator[MakeTable]:
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
