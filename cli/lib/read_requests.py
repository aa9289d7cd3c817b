"""Query and Scan: their requests, and their pages."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from queue import SimpleQueue
from typing import Any

from ...model.lazy_dataclass import dataclass
from ...model.values import Item
from .client import Client
from .errors import CommandError, ExitCode
from .key_arguments import KeyArguments
from .literals import Lifted
from .options import ReadOptions
from .progress import Advance
from .session import consumed
from .settings import SessionSettings
from .values import plain_item, read_item, write_json


@dataclass(slots=True)
class Reading:
    """A Query or Scan and its totals.

    It reads one page, or as many pages as `limit` items need, or all pages with `everything`.

    Attributes:
        last: The LastEvaluatedKey of the last page.
        advance: Called with the number of scanned items of each page.
    """

    client: Client
    operation: str
    body: dict[str, Any]
    limit: int | None = None
    everything: bool = False
    count: int = 0
    scanned: int = 0
    pages: int = 0
    units: Decimal = Decimal(0)
    last: Item | None = None
    advance: Advance = lambda _: None

    def items(self) -> Iterator[Item]:
        """Yield the items, page by page. The totals are complete at the end."""
        for page in self.answers():
            yield from page.get("Items", ())

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the response of each page."""
        body = dict(self.body)
        while True:
            if self.limit is not None:
                body["Limit"] = self.limit - self.count
            answer = self.client.call(self.operation, body)
            self.count_page(answer)
            self.last = answer.get("LastEvaluatedKey")
            yield answer
            if self.last is None or not self._needs_more():
                return
            body["ExclusiveStartKey"] = self.last

    def count_page(self, answer: dict[str, Any]) -> None:
        """Add a page to the totals."""
        self.pages += 1
        self.count += answer["Count"]
        self.scanned += answer["ScannedCount"]
        self.units += consumed(answer)
        self.advance(answer["ScannedCount"])

    def more(self, settings: SessionSettings) -> str:
        """Return the part of the footer about further pages, or ""."""
        if self.last is None:
            return ""
        key = write_json(self.last if settings.typed else plain_item(self.last))
        return f"more: --all, or --start '{key}'"

    def _needs_more(self) -> bool:
        if self.limit is not None:
            return self.count < self.limit
        return self.everything


def read_request(table: str, options: ReadOptions, lifted: Lifted, *, is_typed: bool) -> dict[str, Any]:
    """Return the common members of Query and Scan. The caller adds the placeholders of `lifted` at the end."""
    body: dict[str, Any] = {"TableName": table, "ReturnConsumedCapacity": "INDEXES"}
    if options.index is not None:
        body["IndexName"] = options.index
    if options.consistent:
        body["ConsistentRead"] = True
    if options.where is not None:
        body["FilterExpression"] = lifted.lift(options.where)
    if options.select == "count":
        body["Select"] = "COUNT"
    elif options.select is not None:
        body["ProjectionExpression"] = lifted.paths(options.select)
    if options.start is not None:
        body["ExclusiveStartKey"] = read_item(options.start, "--start", is_typed=is_typed)
    return body


@dataclass(slots=True)
class ParallelScan(Reading):
    """A Scan of all pages in segments, each in a thread. The order of pages is undefined."""

    segments: int = 1

    def answers(self) -> Iterator[dict[str, Any]]:
        answers: SimpleQueue[dict[str, Any] | Future[None]] = SimpleQueue()
        with ThreadPoolExecutor(self.segments) as pool:
            for segment in range(self.segments):
                pool.submit(self._read, segment, answers.put).add_done_callback(answers.put)
            running = self.segments
            while running:
                answer = answers.get()
                if isinstance(answer, Future):
                    answer.result()
                    running -= 1
                else:
                    self.count_page(answer)
                    yield answer

    def _read(self, segment: int, deliver: Callable[[dict[str, Any]], None]) -> None:
        body = self.body | {"Segment": segment, "TotalSegments": self.segments}
        with closing(self.client.copy()) as client:
            for answer in Reading(client, "Scan", body, everything=True).answers():
                deliver(answer)


_OPERATORS = ("=", "<", "<=", ">", ">=")
_OPERATOR = re.compile(r"[<=>]+|!=+")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)


def key_condition(
    shape: KeyArguments, index: str | None, words: list[str], sorts: list[str] | None, lifted: Lifted
) -> str:
    """Return a KeyConditionExpression of the partition key's words and the texts of --sk, one for each sort attribute.

    --sk is `= X`, `< X`, `<= X`, `> X`, `>= X`, `begins_with X` or `between X and Y`. X alone means `= X`. An index has
    up to four sort attributes; all conditions but the last are equalities.

    Raises:
        CommandError: `words` are not the partition key, the sort key has fewer attributes, or one of `sorts` has
            another operator.
    """
    names = shape.key_names(index, "HASH")
    if len(words) != len(names):
        raise CommandError(f"the partition key is {' and '.join(names)}", ExitCode.USAGE)
    parts = [
        f"{lifted.alias(name)} = {lifted.add(shape.plain(name, word))}"
        for name, word in zip(names, words, strict=True)
    ]
    sort_names = shape.key_names(index, "RANGE")
    if sorts and len(sorts) > len(sort_names):
        has = f"the sort key {' and '.join(sort_names)}" if sort_names else "no sort key"
        raise CommandError(f"{index or shape.name} has {has}", ExitCode.USAGE)
    parts += [
        _sort_condition(shape, name, text.strip(), lifted)
        for name, text in zip(sort_names, sorts or (), strict=False)
    ]
    return " AND ".join(parts)


def _sort_condition(shape: KeyArguments, name: str, text: str, lifted: Lifted) -> str:
    def value(word: str) -> str:
        return lifted.add(shape.plain(name, _unquoted(word.strip())))

    alias = lifted.alias(name)
    if operator := _OPERATOR.match(text):
        if operator[0] not in _OPERATORS:
            raise CommandError(
                f"--sk '{text}': {operator[0]} is not an operator; the operators are {', '.join(_OPERATORS)}, "
                f"begins_with and between. Quote a value that begins like one: \"= '{text}'\".",
                ExitCode.USAGE,
            )
        return f"{alias} {operator[0]} {value(text[operator.end() :])}"
    word, _, rest = text.partition(" ")
    bounds = _AND.split(rest, maxsplit=1)
    match word.lower():
        case "begins_with" if rest:
            return f"begins_with({alias}, {value(rest)})"
        case "between" if len(bounds) > 1:
            return f"{alias} BETWEEN {value(bounds[0])} AND {value(bounds[1])}"
        case "begins_with" | "between":
            raise CommandError(
                f"--sk '{text}': write 'begins_with X', 'between X and Y', or '= {text}' for the word itself",
                ExitCode.USAGE,
            )
    return f"{alias} = {value(text)}"


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word
