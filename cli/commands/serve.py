"""`foldb serve`: start a server."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ...server.app import run
from ...server.http.address import ListenError
from ...server.settings import Group, SettingError
from ...server.settings import Settings as ServerSettings
from ..lib.errors import CommandError, ExitCode
from ..lib.log_format import LogFormat, configure
from ..lib.session import Session, is_address
from ..lib.setting_options import flag_error, setting_options, setting_values
from ..lib.settings import SessionSettings, cluster_secret
from .aws_config import greeting


@setting_options
def serve(
    session: Session,
    *,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="Keep the database in memory. It is lost when the server stops.",
            rich_help_panel=Group.STORAGE,
        ),
    ] = False,
    log_format: Annotated[
        LogFormat,
        typer.Option(
            "--log-format",
            help="Write messages to stderr as text or as lines of JSON.",
            rich_help_panel=Group.NETWORK,
        ),
    ] = LogFormat.TEXT,
    **values: Any,
) -> None:
    """--db (or FOLDB_DB) names the folder; the default is ./data.

    With --log the log is in Kafka, and the server keeps derived data in a folder only if --db names one.

    Example: foldb serve --db ./data --port 8000
    """
    folder = _folder(session.settings, memory=memory, shared=values["log"] is not None)
    settings = ServerSettings(path=folder, cluster_secret=cluster_secret(), **setting_values(values))
    configure(log_format)
    try:
        run(
            settings,
            on_ready=lambda url: session.output.say(_greeting(url, settings)),
            progress=lambda commands: session.output.say(f"refolded {commands:,} commands"),
        )
    except SettingError as error:
        raise CommandError(flag_error(error), ExitCode.USAGE) from None
    except ListenError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CommandError(
            f"cannot listen on {settings.host}:{settings.port}: {reason}. Choose another port with --port.",
            ExitCode.UNREACHABLE,
        ) from error


def _folder(settings: SessionSettings, *, memory: bool, shared: bool) -> Path | None:
    """Return the folder of this server. None: it keeps nothing on disk.

    Raises:
        CommandError: Two flags contradict each other, or --db is not a folder.
    """
    db = settings.db
    if memory and settings.is_db_flag:
        raise CommandError(
            f"--memory and --db {db}: --memory uses no folder. Remove one of the flags.",
            ExitCode.USAGE,
        )
    if memory and shared:
        raise CommandError("--memory and --log: the log is either in memory or in Kafka.", ExitCode.USAGE)
    if memory or (shared and is_address(db)):
        return None
    if not settings.is_db_given:
        return Path("data")
    if db.startswith("kafka://"):
        raise CommandError(f"{db} is a log in Kafka: serve it with --log {db}.", ExitCode.USAGE)
    if is_address(db):
        raise CommandError(
            f"{db}, from --db or FOLDB_DB, is an address and not a folder: give a folder, like --db ./data.",
            ExitCode.USAGE,
        )
    return Path(db)


def _greeting(url: str, settings: ServerSettings) -> str:
    location = (
        "in memory: a stop loses all data" if settings.path is None else f"in {settings.path.resolve()}"
    )
    location = location if settings.log is None else f"in {settings.log}"
    return greeting(url, location, has_keys=settings.keys is not None)
