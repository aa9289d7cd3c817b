"""Checks of the versions that a partition's log wrote: an independent model that keeps them all."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from foldb.materializer.fold.state import PartitionState
from foldb.materializer.fold.storage import Store, Stored
from foldb.materializer.fold.versions import Version


def check_order(versions: Iterable[Version]) -> None:
    """Check that effective time never falls along a key, so that the last version at a key is the newest."""
    last: dict[tuple[int, bytes, bytes], int] = {}
    for version in versions:
        key = (version.store, version.pk, version.sk)
        before = last.get(key, 0)
        assert before <= version.effective_time, (
            f"{key} is written at {version.effective_time}, after a version of {before}"
        )
        last[key] = version.effective_time


def check_newest(versions: Iterable[Version], state: PartitionState) -> None:
    """Check that the newest versions are the state: no write lacks its version, in tables and indexes."""
    newest: dict[int, dict[tuple[bytes, bytes], Stored]] = defaultdict(dict)
    for version in versions:
        if version.stored is None:
            newest[version.store].pop((version.pk, version.sk), None)
        else:
            newest[version.store][version.pk, version.sk] = version.stored
    for store_id, store in stores(state).items():
        found = {(pk, sk): stored for _, pk, sk, stored in store.scan()}
        assert found == newest[store_id], f"the versions of {store_id} are not its contents"


def stores(state: PartitionState) -> dict[int, Store]:
    """Return the stores of all tables and indexes by id."""
    tables = {table_id: table.items for table_id, table in state.tables.items()}
    indexes = chain.from_iterable(table.indexes.values() for table in state.tables.values())
    return tables | {index.definition.id: index.store for index in indexes}
