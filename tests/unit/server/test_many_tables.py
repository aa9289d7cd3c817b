"""The work of a table operation does not depend on the number of other tables."""

import gc
import sys
from types import FrameType
from typing import Any, TypeAlias

from tests.unit.server.test_connection import TABLE, Bench

FEW, MANY = 5, 200
NEW = {**TABLE, "TableName": "New"}
OPERATIONS: dict[str, dict[str, Any]] = {
    "CreateTable": NEW,
    "DescribeTable": {"TableName": "New"},
    "UpdateTable": {"TableName": "New", "DeletionProtectionEnabled": False},
    "UpdateTimeToLive": {
        "TableName": "New",
        "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "at"},
    },
    "ListTables": {"Limit": 2},
    "DeleteTable": {"TableName": "New"},
}
Tracer: TypeAlias = Any  # a function that returns itself


def with_tables(count: int) -> Bench:
    bench = Bench()
    for number in range(count):
        bench.ask("CreateTable", {**TABLE, "TableName": f"Table{number}"})
        bench.loop.run()
    for operation in OPERATIONS:  # the first request of a kind takes more
        bench.ask(operation, OPERATIONS[operation])
        bench.loop.run()
    return bench


def work(bench: Bench, operation: str) -> int:
    """Return the number of instructions of Python that an operation takes, with the work that it leaves."""
    count = 0
    bench.transport.sent = b""

    def trace(frame: FrameType, event: str, _argument: object) -> Tracer:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    gc.disable()  # a collection calls Python functions of test tools
    sys.settrace(trace)
    try:
        bench.ask(operation, OPERATIONS[operation])
        bench.loop.run()
    finally:
        sys.settrace(None)
        gc.enable()
    assert bench.transport.sent.startswith(b"HTTP/1.1 200"), bench.transport.sent
    return count


def cycle(bench: Bench) -> dict[str, int]:
    """Return the work of each operation. The last one deletes the table that the first one makes."""
    return {operation: work(bench, operation) for operation in OPERATIONS}


def test_table_operations_take_the_same_work_beside_many_tables() -> None:
    benches = with_tables(FEW), with_tables(MANY)

    for bench in benches:  # the first trace of a function changes its code, which takes instructions too
        cycle(bench)
    few, many = map(cycle, benches)

    assert many == few
