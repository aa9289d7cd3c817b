"""The limits of 2012, and limits that a test reaches only with smaller values."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.support.claims import KIB, invalid, refused, sized, stored_size
from tests.support.tables import table_request


@pytest.fixture
def old(connect: Callable[[str], Any]) -> Iterator[Any]:
    """boto3's resource of a server with the limits of 2012."""
    with foldb.serve(limits="2012") as server:
        yield connect(server.endpoint_url)


@pytest.mark.spec("S16")
def test_in_2012_an_item_had_64_kib(old: Any) -> None:
    table = old.create_table(**table_request("Old", "pk:S"))
    table.put_item(Item=sized(64 * KIB, pk="a"))

    with invalid("Item size has exceeded the maximum allowed size"):
        table.put_item(Item=sized(64 * KIB + 1, pk="a"))


@pytest.mark.spec("S11", "S12", "S14")
@pytest.mark.parametrize("value", ["", b"", None], ids=["string", "binary", "null"])
def test_in_2012_nothing_was_empty_or_null(old: Any, value: Any) -> None:
    table = old.create_table(**table_request("Old", "pk:S"))

    with invalid():
        table.put_item(Item={"pk": "a", "v": value})


@pytest.mark.spec("S22")
def test_in_2012_a_table_had_five_gsis(old: Any) -> None:
    old.create_table(**table_request("Five", "pk:S", gsi={f"Gsi{n}": f"a{n}:S" for n in range(5)}))

    with invalid():
        old.create_table(**table_request("Six", "pk:S", gsi={f"Gsi{n}": f"a{n}:S" for n in range(6)}))


@pytest.mark.spec("S22")
def test_a_table_may_have_more_gsis_where_the_limit_is_raised(
    connect: Callable[[str], Any], tmp_path: Path
) -> None:
    """The log remembers: a later start needs no setting."""
    wide = table_request("Wide", "pk:S", gsi={f"Gsi{n}": f"a{n}:S" for n in range(21)})
    with foldb.serve(tmp_path, limits="modern,global_indexes=21"):
        pass
    with foldb.serve(tmp_path) as server:
        connect(server.endpoint_url).create_table(**wide)

        assert 21 == len(connect(server.endpoint_url).Table("Wide").global_secondary_indexes)


@pytest.mark.spec("S35")
def test_in_2012_an_element_cost_nothing_of_its_own(old: Any) -> None:
    table = old.create_table(**table_request("Old", "pk:S"))
    table.put_item(Item={"pk": "a", "l": ["abc", "d"]})

    assert 3 + len("l") + 3 + 4 == stored_size(table)


@pytest.mark.spec("S16", "S21")
def test_a_collection_with_an_lsi_has_a_largest_size(connect: Callable[[str], Any]) -> None:
    """10 GB in the set `modern`; here 1 MB, of which items and index entries each take half."""
    with foldb.serve(limits=f"modern,collection_bytes={KIB * KIB}") as server:
        table = connect(server.endpoint_url).create_table(
            **table_request("Grows", "pk:S", "sk:S", lsi={"Lsi": "l:S"})
        )
        for n in range(5):
            table.put_item(Item=sized(100 * KIB, pk="full", sk=f"{n}", l="x"))
        with refused("ItemCollectionSizeLimitExceededException"):
            table.put_item(Item=sized(100 * KIB, pk="full", sk="5", l="x"))
        table.put_item(Item=sized(100 * KIB, pk="other", sk="5", l="x"))
        table.put_item(Item=sized(50 * KIB, pk="full", sk="0", l="x"))

        assert 6 == table.scan()["Count"]


@pytest.mark.spec("S21", "S102")
def test_without_an_lsi_a_collection_has_none(connect: Callable[[str], Any]) -> None:
    with foldb.serve(limits=f"modern,collection_bytes={KIB}") as server:
        table = connect(server.endpoint_url).create_table(**table_request("Grows", "pk:S", "sk:S"))
        for n in range(5):
            table.put_item(Item=sized(10 * KIB, pk="full", sk=f"{n}"))

        assert 5 == table.scan()["Count"]
