"""docs/coverage.md: the tests behind each row of the specification.

python -m tests.unit.project.coverage      writes the page from the markers `@pytest.mark.spec("S33", ...)`
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "coverage.md"
GUARANTEES = (ROOT / "docs" / "guarantees.md", ROOT / "SECURITY.md")

# Tests in these folders drive a served process, unless their marker has `served=False`. The plugin in driven.py fails
# a test that does not.
SERVED = (
    "tests/verification/audits/",
    "tests/behaviour/auth/",
    "tests/behaviour/cli/",
    "tests/behaviour/clients/",
    "tests/behaviour/cluster/",
    "tests/behaviour/examples/",
    "tests/unit/server/",
    "tests/behaviour/spec/",
)

ROWS = {
    "S01": "tables, items, attributes",
    "S02": "ProductCatalog items",
    "S03": "partition key",
    "S04": "partition and sort key",
    "S05": "key types and lengths",
    "S06": "Forum, Thread, Reply",
    "S07": "item collection",
    "S08": "point, range or full scan",
    "S09": "no joins",
    "S10": "the types of the first edition",
    "S11": "BOOL, NULL, L, M; nested paths; 32 levels",
    "S12": "strings",
    "S13": "numbers",
    "S14": "binary",
    "S15": "sets",
    "S16": "item size limit",
    "S17": "table names",
    "S18": "large data elsewhere",
    "S19": "local secondary indexes",
    "S20": "consistent reads of an LSI, and its fetches",
    "S21": "collection limit of an LSI",
    "S22": "global secondary indexes",
    "S23": "a GSI is asynchronous",
    "S24": "a GSI's own capacity",
    "S25": "a GSI does not fetch",
    "S26": "sort keys of an index need not be unique",
    "S27": "sparse indexes",
    "S28": "projections",
    "S29": "genres of the music sample",
    "S30": "years of the music sample",
    "S31": "DescribeTable shows indexes",
    "S32": "size = names + values",
    "S33": "size of a number",
    "S34": "size of null and boolean",
    "S35": "size of lists and maps",
    "S36": "one read unit",
    "S37": "one write unit",
    "S38": "ten read units, ten write units",
    "S39": "read planning table",
    "S40": "write planning table",
    "S41": "rounding of reads",
    "S42": "rounding of writes",
    "S43": "reading a missing item",
    "S44": "a failed condition's units",
    "S45": "BatchGetItem rounds each item",
    "S46": "Query sums, then rounds",
    "S47": "Scan costs what it evaluates",
    "S48": "counting",
    "S49": "projecting",
    "S50": "PutItem: the larger of old and new",
    "S51": "UpdateItem: the larger of before and after",
    "S52": "DeleteItem: the deleted item",
    "S53": "eventually consistent reads cost half",
    "S54": "transactions cost twice",
    "S55": "what indexes cost",
    "S56": "100 bytes more an item",
    "S57": "units are rounding units",
    "S62": "partitions",
    "S63": "splitting",
    "S69": "vertical partitioning",
    "S70": "strong and eventual reads",
    "S71": "CloudWatch metrics and alarms",
    "S73": "Put, Get, Update, Delete",
    "S74": "Query",
    "S75": "Scan, in parallel",
    "S76": "expressions",
    "S77": "1 MB pages",
    "S78": "conditional writes",
    "S79": "optimistic locking, locks, counters",
    "S80": "transactions",
    "S81": "conflicts of transactions",
    "S82": "condition checks",
    "S83": "Goods and Containers",
    "S84": "batches",
    "S85": "CreateTable",
    "S86": "UpdateTable",
    "S87": "ListTables",
    "S88": "DescribeTable",
    "S89": "an eventual control plane",
    "S90": "streams, two flavours",
    "S91": "Lambda triggers",
    "S92": "files as an archive",
    "S93": "what expires is archived",
    "S94": "Annotations",
    "S95": "Customer and Address",
    "S96": "the single table rule",
    "S97": "rights by table",
    "S98": "a materialized view",
    "S99": "a table a period",
    "S100": "DeviceStatus and DeviceActivity",
    "S101": "pricing",
    "S102": "no limits on tables and collections",
    "S103": "batches are more efficient",
    "S104": "maximum throughput",
    "F1": "record content",
    "F2": "order",
    "F3": "duplicates",
    "F4": "writes that change nothing",
    "F5": "retention",
    "F6": "readers",
    "F7": "shards",
    "F8": "starts",
    "F9": "a snapshot, then the stream",
    "F10": "transactions are visible",
    "F11": "who",
    "F12": "batch size",
    "F13": "batch window",
    "F14": "filters",
    "F15": "workers",
    "F16": "halving on errors",
    "F17": "partial failures",
    "F18": "retries and age",
    "F19": "what failed is kept with its payload",
    "F20": "dead letters keep the order of a key",
    "F21": "redrive",
    "F22": "tumbling windows",
    "F23": "checkpoints",
    "F24": "lag",
    "F25": "replay",
    "F26": "pause, resume, drain",
    "F27": "Python without Java",
    "T1": "Python functions",
    "T2": "Lambda handlers, unchanged",
    "T3": "commands",
    "T4": "webhooks",
    "T5": "topics, files and SQL",
    "T6": "order per key",
    "T7": "at least once, and effectively once",
    "T8": "dead letters are a table",
    "T9": "replay says first what it would do",
    "T10": "trigger test",
    "T11": "filters before delivery, explained",
    "T12": "figures",
    "T13": "poison",
    "T14": "hot reload",
    "T15": "back-pressure",
    "T16": "windows with state",
    "T17": "loops",
    "T18": "settle",
    "H1": "rebuild",
    "H2": "verify",
    "H3": "past reads",
    "H4": "consistent cut",
    "H5": "history of an item",
    "H6": "differences between cuts",
    "H10": "snapshots",
    "H11": "audit",
    "X1": "time to live",
    "X2": "tags",
    "X4": "backups, encryption and throughput settings",
    "X5": "one namespace",
    "X6": "unsigned requests, health, CORS",
    "X7": "TableName as ARN",
    "X8": "x-amz-crc32",
    "X9": "order of checks",
    "X10": "index keys of several attributes",
    "X11": "duplicates, index misfits, unprocessed keys",
    "X12": "PartiQL",
}

# Parts of a row that foldb does not implement yet.
LATER = {
    "S07": "the console's view of a collection",
    "S24": "throttling a table because its index lags: nothing is throttled yet",
    "S38": "the limiter: units are counted, nothing is throttled yet",
    "S84": "UnprocessedItems by throttling: nothing is throttled yet; by size they are tested (X11)",
    "S92": "S3 by a plugin",
    "F22": "state in a table: a window that a stop cut off is counted again from the log",
    "T9": "a function is called with `replay` set: one that ignores it has its usual effects; other targets need "
    "`--side-effects`",
    "H1": "one index alone (`--index`)",
}


class Marked(NamedTuple):
    """A test with a marker of a row; `is_served` is whether it drives a served process."""

    file: str
    test: str
    is_served: bool


@cache
def marked() -> dict[str, list[Marked]]:
    """Return the tests of each row and guarantee, in the order of files and lines."""
    found = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        file = path.relative_to(ROOT).as_posix()
        for name, row, served in _marks(ast.parse(path.read_text())):
            found[row].append(Marked(file, name, served and file.startswith(SERVED)))
    return found


def guarantees(page: Path) -> list[str]:
    """Return the ids in the first column of a page's tables of guarantees."""
    return re.findall(r"^\| (G\d+|SEC\d+) \|", page.read_text(), re.MULTILINE)


def is_served(options: Mapping[str, Any]) -> bool:
    """Return whether a marker with these keywords declares that the test drives a served process.

    Raises:
        ValueError: The marker has an unknown keyword.
    """
    if options.keys() - {"served"}:
        raise ValueError(f"spec(...) has no such keyword: {options}")
    return bool(options.get("served", True))


def _marks(module: ast.Module) -> Iterator[tuple[str, str, bool]]:
    """Yield every (test, row, is served), also for single parameters."""
    for test in ast.walk(module):
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in (node for decorator in test.decorator_list for node in ast.walk(decorator)):
                match node:
                    case ast.Call(func=ast.Attribute(attr="spec"), args=rows, keywords=options):
                        served = is_served(
                            {str(option.arg): ast.literal_eval(option.value) for option in options}
                        )
                        yield from ((test.name, ast.literal_eval(row), served) for row in rows)
                    case ast.Call(func=ast.Attribute(attr="guarantee"), args=ids):
                        yield from ((test.name, ast.literal_eval(each), False) for each in ids)


def page() -> str:
    """Return the page that the markers describe."""
    tests = marked()
    lines = [
        "# Coverage",
        "",
        "The tests behind each row of the specification and each guarantee. `python -m tests.unit.project.coverage`",
        "writes this page from the markers in the tests, and a test compares it with them. At least one test",
        "of each row",
        "drives a served process; it fails if no server answers while it runs (`tests/unit/project/driven.py`).",
        "",
        "## Specification",
        "",
        "| row | about | tests | not yet |",
        "| --- | --- | --- | --- |",
    ]
    for row, about in ROWS.items():
        lines.append(f"| {row} | {about} | {_links(tests.get(row, []))} | {LATER.get(row, '')} |")
    lines += [
        "",
        "## Guarantees",
        "",
        "The ids are those of [guarantees.md](guarantees.md) and [SECURITY.md](../SECURITY.md).",
        "",
        "| id | tests |",
        "| --- | --- |",
    ]
    for each in (each for page in GUARANTEES for each in guarantees(page)):
        lines.append(f"| {each} | {_links(tests.get(each, []))} |")
    return "\n".join([*lines, ""])


def _links(tests: list[Marked]) -> str:
    by_file = defaultdict(list)
    for file, name, _ in tests:
        by_file[file].append(name.removeprefix("test_"))
    return "<br>".join(
        f"[{Path(file).stem}](../{file}): {', '.join(names)}" for file, names in by_file.items()
    )


if __name__ == "__main__":
    PAGE.write_text(page())
