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

if (
    TYPE_CHECKING
):  # pytest imports this package in every run of every user, so each import waits for the first use
    from typing import Unpack

    from .embedded import Server
    from .server.setting_keywords import SettingKeywords
    from .streams.decorator import trigger
    from .streams.idempotent import once
    from .streams.workers.change import Change, ChangeError, Tx, Window


def serve(path: str | Path | None = None, **settings: "Unpack[SettingKeywords]") -> "Server":
    """Start a server on a free port, in a thread of this process. Use it in a `with`.

    Args:
        path: The folder of the log, which is created if it is missing. None keeps the database in memory.
        settings: The settings in docs/python.md, such as `partitions=8` or `ttl_interval_ms=100`.
    """
    from .materializer.gc_tuning import no_collections

    with no_collections():  # collections would take a fifth of the time of the import
        from .embedded import Server
    return Server(path, **settings)


_MODULES = {
    "Change": "streams.workers.change",
    "ChangeError": "streams.workers.change",
    "Tx": "streams.workers.change",
    "Window": "streams.workers.change",
    "once": "streams.idempotent",
    "trigger": "streams.decorator",
}


def __getattr__(name: str) -> Any:
    """Import a name of the trigger API at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


__all__ = ["Change", "ChangeError", "Tx", "Window", "__version__", "once", "serve", "trigger"]
