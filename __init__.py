"""foldb: a DynamoDB-compatible database whose only source of truth is a log.

import boto3, foldb

with foldb.serve("data") as server:
    boto3.client("dynamodb", **server.boto3).list_tables()

In a file of the folder that `foldb serve --triggers` names:

from foldb import Change, trigger

@trigger("orders", on="INSERT")
def greet(change: Change) -> None:
    print(change.new["id"])
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .embedded import Server
    from .streams.decorator import trigger
    from .streams.idempotent import once
    from .streams.workers.change import Change, ChangeError, Tx, Window


def serve(path: str | Path | None = None, **settings: Any) -> "Server":
    """Start a server on a free port, in a thread of this process; use it in a `with`.

    Args:
        path: The directory of the log, made if it is not there; None keeps everything in memory.
        settings: The settings that docs/python.md lists, such as `partitions=8` or `ttl_interval_ms=100`.
    """
    # The pytest plugin imports this package in every test run of every user, so nothing is imported before it is used.
    from .embedded import Server

    return Server(path, **settings)


_FACE = {
    "Change": "streams.workers.change",
    "ChangeError": "streams.workers.change",
    "Tx": "streams.workers.change",
    "Window": "streams.workers.change",
    "once": "streams.idempotent",
    "trigger": "streams.decorator",
}


def __getattr__(name: str) -> Any:
    """What triggers are written with, imported when it is asked for."""
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FACE[name]}", __name__), name)


__all__ = ["Change", "ChangeError", "Tx", "Window", "__version__", "once", "serve", "trigger"]
