"""Changes as a Parquet file: the plain format's members as columns, items as DynamoDB JSON.

It needs pyarrow, which is large: `pip install "foldb[parquet]"`. The first write of a file imports it.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from .lines import PlainLines, plain_id
from .table_view import Delivery, operation


def is_installed() -> bool:
    return find_spec("pyarrow") is not None


class Parquet:
    """Parquet files. The id of a change is the same as in JSON Lines."""

    suffix = "parquet"

    def encode(self, changes: Sequence[Delivery]) -> bytes:
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.Table.from_pylist([_row(delivery) for delivery in changes], _schema())
        file = BytesIO()
        pyarrow.parquet.write_table(table, file, compression="zstd")
        return file.getvalue()

    def ids(self, data: bytes) -> Iterator[str]:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(BytesIO(data), columns=["number", "op", "keys"])
        for row in table.to_pylist():
            yield plain_id(row["number"], row["op"], row["keys"].encode())

    def id(self, delivery: Delivery) -> str:
        return PlainLines().id(delivery)


@cache
def _schema() -> Any:
    import pyarrow

    text = pyarrow.string()
    return pyarrow.schema(
        [
            ("table", text),
            ("op", text),
            ("keys", text),
            ("old", text),
            ("new", text),
            ("number", text),
            ("position", text),
            ("time", pyarrow.timestamp("ms", "UTC")),
            ("tx_id", text),
            ("tx_n", pyarrow.int32()),
            ("tx_of", pyarrow.int32()),
            ("principal", text),
            ("request_id", text),
            ("source", text),
            ("depth", pyarrow.int32()),
        ]
    )


def _row(delivery: Delivery) -> dict[str, Any]:
    change, table = delivery.change, delivery.table
    request_id, _, principal, source, depth, _ = change.context.fields()
    tx_id, tx_n, tx_of = change.tx or (None, None, None)
    return {
        "table": table.name,
        "op": operation(change),
        "keys": table.key.write(change.pk, change.sk).decode(),
        "old": None if change.old is None else change.old.decode(),
        "new": None if change.new is None else change.new.decode(),
        "number": str(delivery.sequence_number),
        "position": delivery.position,
        "time": change.time,
        "tx_id": tx_id,
        "tx_n": tx_n,
        "tx_of": tx_of,
        "principal": principal,
        "request_id": request_id,
        "source": source,
        "depth": depth,
    }
