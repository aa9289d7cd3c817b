"""A database with a stream on one table and none on another, served in this process; tests only read it."""

from collections.abc import Iterator

import pytest

import foldb
from tests.cli.conftest import Foldb, at


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foldb]:
    """Commands on a database where `Orders`, which has a stream, was changed seven times, and `Notes` once."""
    with foldb.serve(tmp_path_factory.mktemp("orders") / "data", fsync="never") as server:
        cli = at(server.endpoint_url)
        assert cli("table", "create", "Orders", "id:S", "--stream").exit_code == 0
        assert cli("table", "create", "Notes", "id:S").exit_code == 0
        items = "".join(f'{{"id": "o{number}", "price": {number * 50}}}\n' for number in range(5))
        assert cli("item", "put", "Orders", "-", stdin=items).exit_code == 0
        assert cli("item", "update", "Orders", "o1", "--set", "price = 70").exit_code == 0
        assert cli("item", "delete", "Orders", "o2").exit_code == 0
        assert cli("item", "put", "Notes", '{"id": "n"}').exit_code == 0
        yield cli
