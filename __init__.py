"""foldb: a DynamoDB-compatible database whose only source of truth is a log.

import boto3, foldb

with foldb.serve("data") as server:
    boto3.client("dynamodb", **server.boto3).list_tables()
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embedded import Server

__version__ = "0.1.0"


def serve(path: str | Path | None = None, **settings: Any) -> "Server":
    """Start a server on a free port, in a thread of this process; use it in a `with`.

    Args:
        path: The directory of the log, made if it is not there; None keeps everything in memory.
        settings: What `foldb serve` takes as options, spelt with underscores.
    """
    # The pytest plugin imports this package in every test run of every user, so nothing is imported before it is used.
    from .embedded import Server

    return Server(path, **settings)


__all__ = ["__version__", "serve"]
