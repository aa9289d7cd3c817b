"""`foldb sample`: small data sets for experiments."""

import json
import random
import shlex
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ...model.values import Item
from .. import samples
from ..lib.batch_writer import BatchWriter
from ..lib.command_group import CommandGroup
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.key_arguments import KeyArguments
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.session import Session
from ..lib.table_status import until_settled
from ..lib.values import typed_item, write_json

app = CommandGroup()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the sample: see `foldb sample list`.")]
Prefix = Annotated[str, typer.Option("--prefix", help="Prepend this to the names of the tables.")]


@app.command("list")
def list_(session: Session) -> None:
    """Print the samples.

    Example: foldb sample list
    """
    session.output.rows(
        {"name": name, "tables": ", ".join(samples.tables(name)), "about": samples.sample(name)["about"]}
        for name in samples.names()
    )


@app.command()
def show(
    session: Session,
    name: Name,
    transaction: Annotated[
        str | None,
        typer.Option(
            "--transaction", metavar="NAME", help="Print only this transaction, for `foldb tx run -`."
        ),
    ] = None,
    prefix: Prefix = "",
) -> None:
    """Print the tables, items and queries of a sample, or one of its transactions.

    Example: foldb sample show goods --transaction item001-to-cx1 | foldb tx run -
    """
    content = prefixed(_sample(name), prefix)
    if transaction is None:
        session.output.row(content)
        return
    transactions = content.get("transactions", {})
    if transaction not in transactions:
        raise CommandError(
            f"{name} has the transactions: {', '.join(transactions) or 'none'}", ExitCode.NOT_FOUND
        )
    typer.echo(write_json(transactions[transaction], indent=True))


@app.command()
def load(
    session: Session,
    name: Name,
    prefix: Prefix = "",
    events: Annotated[
        int,
        typer.Option(
            "--events", min=0, help="Add N events to the sample `devices`. Every run adds the same events."
        ),
    ] = 0,
) -> None:
    """Create the tables of a sample and put its items.

    Example: foldb sample load forum --prefix test-
    """
    content = prefixed(_sample(name), prefix)
    if events and name != "devices":
        raise CommandError("--events is for the sample `devices`", ExitCode.USAGE)
    for request in content["tables"]:
        _create(session, request, prefix)
    for table, items in content["items"].items():
        _put(session, prefix + table, [typed_item(item) for item in items])
    if events:
        _put(session, f"{prefix}DeviceActivity", list(device_events(events)))
    for request in content.get("then", ()):
        session.client.call("UpdateTable", _integers(request) | {"TableName": prefix + request["TableName"]})
        until_settled(session, prefix + request["TableName"])
    tables = [
        KeyArguments(session.client.call("DescribeTable", {"TableName": prefix + table})["Table"])
        for table in content["items"]
    ]
    session.output.rows({"table": table.name, "items": table.description["ItemCount"]} for table in tables)
    for question in content["queries"]:
        session.output.say(
            f"{question['says']}\n    foldb {' '.join(map(shell_word, question['arguments']))}"
        )


def device_events(count: int) -> Iterator[Item]:
    """Yield events of a smart home: hours without any, then several per second. Every run yields the same."""
    rng = random.Random(17)  # noqa: S311  sample data, not a secret
    time_ms = 1_767_400_000_000
    for _ in range(count):
        time_ms += rng.choice((137, 250, 900, 60_000, 7_200_000))
        device = rng.choice(("doorbell-1", "doorbell-2", "lamp-1"))
        event = rng.choice(("on", "off") if device == "lamp-1" else ("button", "motion"))
        yield {"deviceid": {"S": device}, "timestamp": {"N": str(time_ms)}, "event": {"S": event}}


def shell_word(word: str) -> str:
    """Return a word quoted for a shell, with as few quotes as possible.

    >>> print(shell_word("Year > 2011"), shell_word("Genre = 'Rock'"), shell_word("Music"))
    'Year > 2011' "Genre = 'Rock'" Music
    """
    bare = not set(word) & set('"$`\\!')
    return f'"{word}"' if "'" in word and bare else shlex.quote(word)


def prefixed(content: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the sample with `prefix` before the table names in its queries and transactions."""
    named = dict(content)
    named["queries"] = [
        question | {"arguments": [word.format_map(_Prefixed(prefix)) for word in question["arguments"]]}
        for question in content["queries"]
    ]
    if "transactions" in content:
        named["transactions"] = {
            name: [_with_table(action, prefix) for action in actions]
            for name, actions in content["transactions"].items()
        }
    return named


class _Prefixed(dict[str, str]):
    """A mapping of every name to the name with the prefix before it."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, name: str) -> str:
        return self._prefix + name


def _with_table(action: dict[str, Any], prefix: str) -> dict[str, Any]:
    [(kind, parts)] = action.items()
    return {kind: parts | {"table": parts["table"].format_map(_Prefixed(prefix))}}


def _sample(name: str) -> dict[str, Any]:
    if name not in samples.names():
        raise CommandError(
            f"there is no sample {name}; the samples are {', '.join(samples.names())}", ExitCode.NOT_FOUND
        )
    return samples.sample(name)


def _create(session: Session, request: dict[str, Any], prefix: str) -> None:
    name = prefix + request["TableName"]
    try:
        session.client.call("CreateTable", _integers(request) | {"TableName": name})
    except RequestFailedError as failure:
        if failure.name == "ResourceInUseException":
            raise CommandError(
                f"the table {name} exists; give other names with --prefix", ExitCode.INVALID
            ) from failure
        raise
    until_settled(session, name)


def _integers(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with integers in place of the Decimals of a sample."""
    integers: dict[str, Any] = json.loads(write_json(request))
    return integers


def _put(session: Session, table: str, items: list[Item]) -> None:
    loader = BatchWriter(session.client, session.shape(table))
    placed = ((f"{table} item {count}", item) for count, item in enumerate(items, start=1))
    with progress(session.settings, session.output.stderr, table, len(items)) as advance:
        loader.load(placed, advance)
    session.output.say(f"{table}: {counted(loader.written, 'item')}")
