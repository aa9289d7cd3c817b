"""`foldb undo`: put back the items that a command, a transaction or a writer changed."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..lib.errors import CommandError, ExitCode
from ..lib.options import check_cut
from ..lib.output import counted
from ..lib.session import Session
from ..lib.values import plain_item, write_json

_COLUMNS = ("change", "table", "key", "position")


def undo(
    session: Session,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[POSITION|TABLE]",
            show_default=False,
            help="The position of a command, as footers and `foldb log cat` print it. With --by: the table.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="PRINCIPAL", help="Undo the writes of this access key id."),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CUT",
            parser=check_cut,
            help="With --by: undo its writes after this position (10482.3, 2:10482), time or age (-1h).",
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CUT",
            parser=check_cut,
            show_default="now",
            help="With --by: undo its writes up to this cut.",
        ),
    ] = None,
    skip_conflicts: Annotated[
        bool,
        typer.Option("--skip-conflicts", help="With a position: undo the items that have not changed since."),
    ] = False,
) -> None:
    """Give a POSITION to undo its command, and the whole transaction if it is part of one; or --by and --from.

    An item is undone if its newest version is the one to undo. It gets back the version before; with --by the last one
    that another principal wrote, or the one before --from. Items that changed since are conflicts: they are printed and
    stay, and with a POSITION nothing is written unless --skip-conflicts is given.

    The command prints each item that it would put or remove, asks for confirmation, and changes an item only if it is
    still as printed. The writes have the source `undo`; streams and triggers see them. Up to 100 items are one
    transaction.

    Example: foldb undo 10482.3 --why 'ticket 7'
    """
    request = _request(target, by, first, last)
    plan = session.client.admin("Undo", request | {"DryRun": True})
    reverts, conflicts = plan["Reverts"], plan["Conflicts"]
    session.output.rows(_rows(session, plan), first=_COLUMNS)
    if conflicts:
        session.output.say(f"{counted(len(conflicts), 'conflict')}: changed since, and kept")
    if not reverts:
        raise CommandError("there is no item to undo, and nothing was done", ExitCode.NOT_FOUND)
    if conflicts and by is None and not skip_conflicts:
        raise CommandError(
            f"nothing was done, because {counted(len(conflicts), 'item')} changed since. Give --skip-conflicts to undo "
            "the others.",
            ExitCode.CONDITION,
        )
    puts = sum("Restored" in each for each in reverts)
    several = plan["Transactions"]
    parts = f" These are {several} transactions: others see the states between them." if several > 1 else ""
    session.confirm(f"Put {counted(puts, 'item')} and remove {counted(len(reverts) - puts, 'item')}?{parts}")
    request |= {"Plan": plan["Plan"], "SkipConflicts": skip_conflicts}
    if by is not None:
        request["From"] = plan["From"]  # an age is counted from the plan
    answer = session.client.admin("Undo", request)
    session.output.say(f"{counted(answer['Applied'], 'item')} undone")
    if answer["NotApplied"]:
        for each in answer["NotApplied"]:
            session.output.warn(f"not undone: {each['TableName']} {write_json(_shown(session, each['Key']))}")
        raise CommandError(
            "some items changed during the undo, and their transactions were refused: run the command again",
            ExitCode.PARTLY,
        )


def _request(target: str | None, by: str | None, first: str | None, last: str | None) -> dict[str, Any]:
    if by is None:
        if target is None or first is not None or last is not None:
            raise CommandError("give a POSITION, or --by PRINCIPAL with --from CUT", ExitCode.USAGE)
        return {"Position": target.removeprefix("@")}
    if first is None:
        raise CommandError("--by needs --from CUT: its writes after that are undone", ExitCode.USAGE)
    members = {"Principal": by, "From": first, "To": last, "TableName": target}
    return {name: value for name, value in members.items() if value is not None}


def _rows(session: Session, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("Reverts", "Conflicts"):
        for each in plan[kind]:
            change = "conflict" if kind == "Conflicts" else "put" if "Restored" in each else "remove"
            row = {"change": change, "table": each["TableName"], "key": _shown(session, each["Key"])}
            row |= {"position": each["Position"], "time": each["Time"]}
            if "Principal" in each:
                row["principal"] = each["Principal"]
            for member in ("Present", "Restored"):
                if member in each:
                    row[member.lower()] = _shown(session, each[member])
            yield row


def _shown(session: Session, item: Any) -> Any:
    return item if session.settings.typed else plain_item(item)
