"""A trigger's settings, from options to what the server keeps.

    --run './notify.sh -q' --batch 10 --window 1s      {"Sink": {"Kind": "command", "Command": ["./notify.sh", "-q"]},
    --retries 5 --backoff 1s..60s --max-age 1h    ──►   "BatchSize": 10, "MaximumBatchingWindowInSeconds": 1, ...}

Only what was said is in it: what is left out stays as it is, or is what the server has for it.
"""

import shlex
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer

from ...streams.decorator import setting_backoff, setting_seconds
from .errors import CommandError, ExitCode
from .values import read_json, read_text, write_json

Settings = dict[str, Any]
T = TypeVar("T")

Run: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="'./FILE ARG...'", help="A command of the server's --triggers folder; no shell."
    ),
]
Python: TypeAlias = Annotated[
    str | None, typer.Option("--python", metavar="FILE.py:NAME", help="A function of a file in that folder.")
]
Lambda: TypeAlias = Annotated[
    str | None, typer.Option("--lambda", metavar="FILE.py:NAME", help="A handler as AWS Lambda calls it.")
]
Webhook: TypeAlias = Annotated[str | None, typer.Option("--webhook", metavar="URL", help="An HTTP endpoint.")]
Kafka: TypeAlias = Annotated[str | None, typer.Option("--kafka", metavar="TOPIC", help="A Kafka topic.")]
File: TypeAlias = Annotated[
    str | None,
    typer.Option("--file", metavar="FOLDER", help="Files of JSON Lines or Parquet, each written once."),
]
Sqlite: TypeAlias = Annotated[
    str | None, typer.Option("--sqlite", metavar="NAME", help="A file of SQLite with the items as they are.")
]
Sink: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sink", metavar="JSON", help='More of the sink, or all of it: \'{"Mode": "binary"}\', or @FILE.'
    ),
]
Batch: TypeAlias = Annotated[
    int | None, typer.Option("--batch", min=1, max=10_000, help="At most so many changes a call.")
]
Window: TypeAlias = Annotated[
    str | None, typer.Option("--window", metavar="TIME", help="Wait so long for a batch to fill: 0s to 5m.")
]
Tumbling: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--tumbling", metavar="TIME", help="Tumbling windows, with state, so long: up to 15m; 0s: none."
    ),
]
Workers: TypeAlias = Annotated[
    int | None, typer.Option("--workers", min=1, max=64, help="Calls at a time; the order of a key is kept.")
]
Retries: TypeAlias = Annotated[
    int | None,
    typer.Option("--retries", min=-1, max=10_000, help="Calls again after the first; -1: for ever."),
]
Backoff: TypeAlias = Annotated[
    str | None,
    typer.Option("--backoff", metavar="FIRST..MOST", help="Pauses between them: 1s..60s; up to 1h."),
]
MaxAge: TypeAlias = Annotated[
    str | None, typer.Option("--max-age", metavar="TIME", help="Give up what is older: 60s to 7d, or never.")
]
Bisect: TypeAlias = Annotated[
    bool | None, typer.Option("--bisect/--no-bisect", help="Halve a batch that failed.")
]
Partial: TypeAlias = Annotated[
    bool | None,
    typer.Option("--partial/--no-partial", help="The handler names what failed (ReportBatchItemFailures)."),
]
Policy: TypeAlias = Annotated[
    str | None,
    typer.Option("--policy", metavar="isolate|batch|block", help="What is given up when retries are over."),
]
Dlq: TypeAlias = Annotated[
    str | None, typer.Option("--dlq", metavar="TABLE", help="Where that is kept; NAME.dlq if left out.")
]
Timeout: TypeAlias = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="How long a call may take; 60s if left out.")
]
Together: TypeAlias = Annotated[
    bool | None, typer.Option("--together/--separate", help="A transaction's changes in one batch, or not.")
]
MaxLag: TypeAlias = Annotated[
    int | None, typer.Option("--max-lag", min=1, help="Past so many changes behind, writes are throttled.")
]

_POLICIES: Final = ("isolate", "batch", "block")
_NO_LIMIT: Final = -1
KINDS: Final = ("--run", "--python", "--lambda", "--webhook", "--kafka", "--file", "--sqlite")


def sink_of(flags: dict[str, str | None], more: str | None) -> Settings:
    """The Sink that options name; {} where none does.

    Raises:
        CommandError: They name several, or what they name cannot be.
    """
    given = {flag: value for flag, value in flags.items() if value is not None}
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)}: a trigger calls one of them", ExitCode.USAGE)
    sink: Settings = {}
    for flag, value in given.items():
        sink = _SINKS[flag](value)
    return sink | ({} if more is None else _members(more))


def _command(text: str) -> Settings:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandError(f"--run {text}: {error}: close the quotes", ExitCode.USAGE) from None
    if not words:
        raise CommandError("--run is empty: write a file and its arguments", ExitCode.USAGE)
    return {"Kind": "command", "Command": words}


def _function(flag: str, text: str) -> tuple[str, str]:
    """The module and the name of `file.py:name`."""
    file, colon, name = text.rpartition(":")
    parts = file.removeprefix("./").removesuffix(".py").split("/")
    if (
        not colon
        or not file.endswith(".py")
        or not name.isidentifier()
        or not all(map(str.isidentifier, parts))
    ):
        raise CommandError(
            f"{flag} {text}: write a file in the server's --triggers folder and a name in it, like receipts.py:send",
            ExitCode.USAGE,
        )
    return ".".join(parts), name


def _python(text: str) -> Settings:
    module, name = _function("--python", text)
    return {"Kind": "python", "Function": f"{module}:{name}"}


def _lambda(text: str) -> Settings:
    module, name = _function("--lambda", text)
    return {"Kind": "lambda", "Handler": f"{module}.{name}"}


_SINKS: Final[dict[str, Callable[[str], Settings]]] = {
    "--run": _command,
    "--python": _python,
    "--lambda": _lambda,
    "--webhook": lambda url: {"Kind": "webhook", "Url": url},
    "--kafka": lambda topic: {"Kind": "kafka", "Topic": topic},
    "--file": lambda folder: {"Kind": "file", "Folder": folder},
    "--sqlite": lambda name: {"Kind": "sqlite", "Database": name},
}


def _members(text: str) -> Settings:
    what = "--sink"
    if text.startswith("@"):
        what = text[1:]
        text = read_text(what, """. Write --sink '{"Mode": "binary"}', or @ and a file that holds that.""")
    members = read_json(text, what)
    if not isinstance(members, dict):
        raise CommandError(f'{what} is not a JSON object: write \'{{"Mode": "binary"}}\'', ExitCode.USAGE)
    return {name: int(value) if _is_whole(value) else value for name, value in members.items()}


def _is_whole(value: Any) -> bool:
    return hasattr(value, "to_integral_value") and value == value.to_integral_value()


def settings_of(
    *,
    batch: int | None,
    window: str | None,
    tumbling: str | None,
    workers: int | None,
    retries: int | None,
    backoff: str | None,
    max_age: str | None,
    bisect: bool | None,
    partial: bool | None,
    policy: str | None,
    dlq: str | None,
    timeout: str | None,
    together: bool | None,
    max_lag: int | None,
) -> Settings:
    """The other settings that options give.

    Raises:
        CommandError: A time is none, or there is no such policy.
    """
    if policy is not None and policy not in _POLICIES:
        raise CommandError(f"--policy {policy}: one of {', '.join(_POLICIES)}", ExitCode.USAGE)
    settings = {
        "BatchSize": batch,
        "MaximumBatchingWindowInSeconds": _read(setting_seconds, "--window", window),
        "TumblingWindowInSeconds": _read(setting_seconds, "--tumbling", tumbling),
        "ParallelizationFactor": workers,
        "MaximumRetryAttempts": retries,
        "Backoff": _read(setting_backoff, "--backoff", backoff),
        "MaximumRecordAgeInSeconds": _NO_LIMIT
        if max_age == "never"
        else _read(setting_seconds, "--max-age", max_age),
        "BisectBatchOnFunctionError": bisect,
        "FunctionResponseTypes": None if partial is None else ["ReportBatchItemFailures"] * partial,
        "OnFailure": policy,
        "DeadLetterTable": dlq,
        "TimeoutSeconds": _read(setting_seconds, "--timeout", timeout),
        "Transactions": None if together is None else "together" if together else "separate",
        "MaximumLag": max_lag,
    }
    return {member: value for member, value in settings.items() if value is not None}


def _read(read: Callable[[str, str | None], T], flag: str, text: str | None) -> T:
    """What a setting's text means."""
    try:
        return read(flag, text)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None


def sink_text(sink: Settings) -> str:
    """What a trigger calls, in a few words.

    >>> sink_text({"Kind": "command", "Command": ["./notify.sh", "two words"]})
    "./notify.sh 'two words'"
    """
    match sink:
        case {"Kind": "command", "Command": list(words)}:
            return shlex.join(words)
        case {"Kind": "python", "Function": str(name)} | {"Kind": "lambda", "Handler": str(name)}:
            return name
        case {"Kind": "webhook", "Url": str(url)}:
            return url
    rest = {name: value for name, value in sink.items() if name != "Kind"}
    return f"{sink['Kind']} {write_json(rest)}"
