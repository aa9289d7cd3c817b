"""`foldb backup`: backups of tables, which name points of their history."""

from typing import Annotated, Any

import typer

from ..lib.command_group import CommandGroup
from ..lib.completion import complete_backups
from ..lib.errors import CommandError, ExitCode
from ..lib.options import DryRun, TableArgument
from ..lib.session import Session
from .fork import NewTable, report

app = CommandGroup()

BackupArgument = Annotated[
    str,
    typer.Argument(
        metavar="BACKUP",
        help="The ARN of a backup, or a name that one backup has.",
        autocompletion=complete_backups,
    ),
]


@app.command()
def create(
    session: Session,
    table: TableArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the backup.")],
) -> None:
    """Back up a table: name its present state. The log keeps that state until the backup is deleted.

    Nothing is copied: against the loss of a disk, use `foldb log backup`.

    Example: foldb backup create Music before-release
    """
    answer = session.client.call("CreateBackup", {"TableName": table, "BackupName": name})
    session.output.row(answer["BackupDetails"])


@app.command("list")
def list_(
    session: Session,
    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="Print the backups of this table alone.")
    ] = None,
) -> None:
    """Print the backups, the oldest first.

    Example: foldb backup list --table Music
    """
    rows = [
        {
            "backup": each["BackupName"],
            "table": each["TableName"],
            "time": each["BackupCreationDateTime"],
            "bytes": each["BackupSizeBytes"],
            "arn": each["BackupArn"],
        }
        for each in _backups(session, {} if table is None else {"TableName": table})
    ]
    session.output.rows(rows, first=("backup",))


@app.command()
def describe(session: Session, backup: BackupArgument) -> None:
    """Print a backup, and its table as it was: the result of DescribeBackup.

    Example: foldb backup describe before-release -o json
    """
    answer = session.client.call("DescribeBackup", {"BackupArn": _arn(session, backup)})
    session.output.row(answer["BackupDescription"])


@app.command()
def delete(session: Session, backup: BackupArgument, dry_run: DryRun = False) -> None:
    """Delete a backup, after a confirmation. The log may still hold the state that it named.

    Example: foldb backup delete before-release --yes
    """
    arn = _arn(session, backup)
    if dry_run:
        described = session.client.call("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
        details, table = described["BackupDetails"], described["SourceTableDetails"]
        session.output.plan(
            {"change": "delete the backup", "backup": details["BackupName"], "arn": arn}
            | {"table": table["TableName"], "items": table["ItemCount"], "bytes": details["BackupSizeBytes"]}
        )
        return
    session.confirm(f"Delete the backup {backup}?")
    session.client.call("DeleteBackup", {"BackupArn": arn})
    session.output.say(f"{backup}: deleted")


@app.command()
def restore(session: Session, backup: BackupArgument, new: NewTable) -> None:
    """Copy the items of a backup to a new table, without stream, time to live, tags and deletion protection.

    Example: foldb backup restore before-release MusicReleased
    """
    request = {"BackupArn": _arn(session, backup), "TargetTableName": new}
    session.client.call("RestoreTableFromBackup", request)
    report(session, new, {"backup": backup})


def _backups(session: Session, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        answer = session.client.call("ListBackups", body)
        found += answer["BackupSummaries"]
        if "LastEvaluatedBackupArn" not in answer:
            return found
        body = body | {"ExclusiveStartBackupArn": answer["LastEvaluatedBackupArn"]}


def _arn(session: Session, backup: str) -> str:
    """Return the ARN of a backup.

    Raises:
        CommandError: No backup has the name, or several have it.
    """
    if backup.startswith("arn:"):
        return backup
    found = [each["BackupArn"] for each in _backups(session, {}) if each["BackupName"] == backup]
    if not found:
        raise CommandError(f"no backup has the name {backup}: see `foldb backup list`", ExitCode.NOT_FOUND)
    if len(found) > 1:
        raise CommandError(
            f"{len(found)} backups have the name {backup}: give the ARN from `foldb backup list`",
            ExitCode.USAGE,
        )
    arn: str = found[0]
    return arn
