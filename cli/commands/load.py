"""`foldb load`: send a load to a table, and measure it."""

import threading
from typing import Annotated, Any, Final

import typer

from ...model.lazy_dataclass import dataclass
from ..lib.durations import read_duration
from ..lib.errors import CommandError, ExitCode
from ..lib.load_generator import OPERATIONS, Load, Measured, Workload
from ..lib.options import TableArgument
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.session import Session
from .capacity import size_bytes

_MIX: Final = "get=50,put=25,update=15,query=10"
_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The requests of a load."""

    rate: Annotated[
        float, typer.Option("--rps", min=0.1, max=1_000_000, help="Send this many requests per second.")
    ] = 100.0
    duration: Annotated[
        int,
        typer.Option(
            metavar="DURATION",
            parser=read_duration,
            show_default="10s",
            help="Send for this time, like 10s or 5m.",
        ),
    ] = 10_000
    zipf: Annotated[
        float,
        typer.Option(
            min=0,
            max=10,
            metavar="S",
            help="Draw the key of rank r in proportion to 1/r^S. 0 draws all alike.",
        ),
    ] = 1.0
    keys: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of partition keys.")] = 10_000
    sort_keys: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of sort keys of each partition key.")
    ] = 10
    mix: Annotated[
        str, typer.Option(metavar="OP=WEIGHT,...", help="Weights of get, put, update and query.")
    ] = _MIX
    size: Annotated[
        str,
        typer.Option(metavar="SIZE[..SIZE]", help="Size of the payload of an item, or its range: 100..1KB."),
    ] = "400"
    seed: Annotated[int, typer.Option(help="Seed of keys, operations, payloads and arrival times.")] = 1

    def workload(self) -> Workload:
        """Return the load.

        Raises:
            CommandError: --mix or --size is malformed, or the duration is 0.
        """
        if not self.duration:
            raise CommandError("--duration 0: give a time such as 10s", ExitCode.USAGE)
        seconds = self.duration / 1000
        sizes = _sizes(self.size)
        return Workload(
            self.rate, seconds, _weights(self.mix), self.keys, self.zipf, self.sort_keys, sizes, self.seed
        )


def load(
    session: Session,
    table: TableArgument,
    options: LoadOptions,
    connections: Annotated[
        int,
        typer.Option(min=1, max=1000, help="Number of connections, each with at most one request."),
    ] = 16,
) -> None:
    """Puts, gets, updates and queries are sent at a rate that does not depend on the answers (an open loop).

    A latency counts from the time at which a request was due, so a stall of the server is measured for all requests
    that it delays. Nothing is retried: a throttled request counts as an error. Keys are key-00000000, key-00000001 and
    so on, or numbers, by a Zipf distribution; the items stay in the table. One process sends some thousand requests per
    second: for more, start several with different seeds.

    The exit code is 10 if a request failed.

    Example: foldb load Orders --rps 500 --zipf 1.1 --duration 30s
    """
    workload = options.workload()
    shape = session.shape(table)
    items = shape.description["ItemCount"]
    if items and workload.mix.keys() & {"put", "update"}:
        session.confirm(
            f"Write to {table}, which has {counted(items, 'item')}? Items with keys of the load are replaced."
        )
    load = Load(workload.requests(shape), workload.seconds)
    threads = [
        threading.Thread(target=load.run, args=(session.client.copy(_TIMEOUT_S),), daemon=True)
        for _ in range(connections)
    ]
    is_interrupted = False
    for thread in threads:
        thread.start()
    try:
        _wait(session, load, threads, round(workload.rate * workload.seconds))
    except KeyboardInterrupt:
        is_interrupted = True
        load.stop()
        for thread in threads:
            thread.join(_TIMEOUT_S)
    _report(session, load)
    if is_interrupted:
        raise CommandError("interrupted: the figures are those of the requests before", ExitCode.INTERRUPTED)


def _wait(session: Session, load: Load, threads: list[threading.Thread], expected: int) -> None:
    shown = 0
    with progress(session.settings, session.output.stderr, "load", expected) as advance:
        while any(thread.is_alive() for thread in threads):
            next(thread for thread in threads if thread.is_alive()).join(_POLL_S)
            sent = load.sent
            advance(sent - shown)
            shown = sent


def _report(session: Session, load: Load) -> None:
    """Print one row for each operation, and one for all.

    Raises:
        CommandError: A request failed or was not sent.
    """
    total = Measured()
    rows: list[dict[str, Any]] = []
    for name, measured in load.measured().items():
        rows.append(measured.row(name, load.seconds))
        total.add(measured)
    session.output.rows([*rows, total.row("all", load.seconds)])
    failed = total.errors.total() + total.unsent
    if failed:
        kinds = ", ".join(f"{count:,} {name}" for name, count in total.errors.most_common())
        unsent = f"{total.unsent:,} not sent: no connection was free" if total.unsent else ""
        raise CommandError(
            f"{failed:,} of {counted(len(total.latencies), 'request')} failed: "
            f"{'; '.join(part for part in (kinds, unsent) if part)}",
            ExitCode.PARTLY,
        )


def _weights(text: str) -> dict[str, int]:
    weights = {}
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        if name not in OPERATIONS or not weight.isdecimal() or name in weights:
            raise CommandError(
                f"--mix {text}: write weights of {', '.join(OPERATIONS)}, such as {_MIX}", ExitCode.USAGE
            )
        weights[name] = int(weight)
    if not any(weights.values()):
        raise CommandError(f"--mix {text}: one weight must be above 0", ExitCode.USAGE)
    return {name: weight for name, weight in weights.items() if weight}


def _sizes(text: str) -> tuple[int, int]:
    least, dots, most = text.partition("..")
    sizes = size_bytes(least), size_bytes(most if dots else least)
    if sizes[0] > sizes[1]:
        raise CommandError(f"--size {text}: the first size is the larger one", ExitCode.USAGE)
    return sizes
