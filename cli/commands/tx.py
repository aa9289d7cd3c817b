"""`foldb tx`: run a transaction, or print one that was run."""

from typing import Annotated, Any

import typer

from ..lib.command_group import CommandGroup
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.literals import Lifted
from ..lib.options import SourceArgument
from ..lib.session import Session, consumed
from ..lib.values import plain_item, read_json, read_lines, typed_item, write_json
from .item import update_expression

app = CommandGroup(default="run")


@app.command()
def run(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="FILE|-", help="A JSON list of actions; - reads stdin.")],
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            help="Send this ClientRequestToken: within ten minutes a repeated request has no effect.",
        ),
    ] = None,
) -> None:
    """Run a list of writes, or of gets, as one transaction. The word `run` may be left out.

    An action is an object with one member: put, update, delete, check or get.

    {"put": {"table": T, "item": {...}}}, {"delete": {"table": T, "key": {...}}},
    {"update": {"table": T, "key": {...}, "set": "n = n + 1", "remove": "a", "if": "n < 10"}},
    {"check": {"table": T, "key": {...}, "if": "..."}}, {"get": {"table": T, "key": {...}}}.
    Placeholders have their values in "values": {":x": ...} and "names": {"#n": ...}. With --typed the list is
    DynamoDB's TransactItems. If the transaction is cancelled, the reasons are printed as JSON to stderr and
    the exit code is 5.

    Example: foldb tx run map-item001-to-cx1.json
    """
    name = "stdin" if source == "-" else source
    actions = read_json("".join(read_lines(source)), name)
    if not isinstance(actions, list) or not all(isinstance(action, dict) for action in actions):
        raise CommandError(
            f"{name} is not a list of actions: see the forms in `foldb tx run --help`", ExitCode.USAGE
        )
    reads = bool(actions) and all("get" in action or "Get" in action for action in actions)
    items = actions if session.settings.typed else [_action(action) for action in actions]
    body: dict[str, Any] = {"TransactItems": items, "ReturnConsumedCapacity": "TOTAL"}
    if token is not None:
        body["ClientRequestToken"] = token
    if reads:
        _read(session, body)
    else:
        _write(session, body)


@app.command()
def show(
    session: Session,
    transaction: Annotated[
        str,
        typer.Argument(
            metavar="POSITION|TOKEN",
            help="A position of the transaction, as footers, `foldb log cat` and `foldb item history` print it, or its "
            "ClientRequestToken.",
        ),
    ],
    source: SourceArgument = None,
) -> None:
    """Print one transaction: its outcome and log times, each action, and the steps between its partitions.

    An action has its partition, its outcome and images, and the reason if it cancelled the transaction; `held_by` is
    the transaction that held its item then. The log is read, and folded from the newest snapshot before the
    transaction. Of several transactions with the same token the first is printed.

    Example: foldb tx show 10482.3
    """
    from ..lib.log_location import source_of
    from ..lib.log_times import is_position  # `foldb tx run` needs neither the log nor the fold
    from ..lib.transaction_history import place_of, places_of_token, transaction_row

    found = source_of(session, source)
    log = found.open()
    by_position = is_position(transaction)
    places = [place_of(log, transaction)] if by_position else places_of_token(log, transaction)
    row = transaction_row(found, log, places[0], is_typed=session.settings.typed)
    if session.output.draws:
        session.output.row({name: value for name, value in row.items() if not isinstance(value, list)})
        session.output.rows(row["actions"])
        session.output.rows(row["steps"])
    else:
        session.output.row(row)
    for other in places[1:]:
        session.output.say(f"the same token was used at @{other.text(log.partitions)}")


def _read(session: Session, body: dict[str, Any]) -> None:
    answer = session.client.call("TransactGetItems", body)
    found = [response["Item"] for response in answer["Responses"] if "Item" in response]
    session.output.items(found)
    session.read_footer(len(found), consumed(answer))


def _write(session: Session, body: dict[str, Any]) -> None:
    try:
        answer = session.client.call("TransactWriteItems", body)
    except RequestFailedError as failure:
        for index, reason in enumerate(failure.body.get("CancellationReasons", ()), start=1):
            session.output.warn(write_json({"action": index, **_reason(reason, session.settings.typed)}))
        raise
    session.write_footer(len(body["TransactItems"]), consumed(answer), "action")


def _reason(reason: dict[str, Any], is_typed: bool) -> dict[str, Any]:
    item = reason.get("Item")
    return reason if item is None or is_typed else reason | {"Item": plain_item(item)}


def _action(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action in DynamoDB's form.

    Raises:
        CommandError: The action is malformed.
    """
    [(kind, parts)] = action.items() if len(action) == 1 else [("", {})]
    if kind not in _KINDS or not isinstance(parts, dict):
        raise CommandError(f"an action has one member, one of {', '.join(_KINDS)}", ExitCode.USAGE)
    unknown = parts.keys() - _KINDS[kind]
    if unknown or "table" not in parts:
        raise CommandError(
            f"{kind} takes {', '.join(_KINDS[kind])}; not {', '.join(sorted(unknown)) or 'without a table'}",
            ExitCode.USAGE,
        )
    for name, value in parts.items():
        if not _fits(name, value):
            raise CommandError(f"`{name}` of {kind} must be {_FORMS[name][1]}", ExitCode.USAGE)
    return {kind.capitalize() if kind != "check" else "ConditionCheck": _members(parts)}


_COMMON = ("table", "if", "values", "names", "show_old")
_KINDS = {
    "put": ("item", *_COMMON),
    "update": ("key", "set", "remove", "add", "delete", *_COMMON),
    "delete": ("key", *_COMMON),
    "check": ("key", *_COMMON),
    "get": ("table", "key", "select"),
}


_STRING = (str, "a string")
_CLAUSES = ((str, list), "a string or a list of strings")
_OBJECT = (dict, "a JSON object")
_FORMS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("table", "if", "select"), _STRING),
    **dict.fromkeys(("set", "remove", "add", "delete"), _CLAUSES),
    **dict.fromkeys(("item", "key", "values"), _OBJECT),
    "names": (dict, "a JSON object of strings"),
    "show_old": (bool, "true or false"),
}


def _fits(name: str, value: Any) -> bool:
    if not isinstance(value, _FORMS[name][0]):
        return False
    strings = value if isinstance(value, list) else value.values() if name == "names" else ()
    return all(isinstance(string, str) for string in strings)


def _members(parts: dict[str, Any]) -> dict[str, Any]:
    lifted = Lifted([], [])
    lifted.names.update(parts.get("names", {}))
    lifted.values.update(typed_item(parts.get("values", {})))
    body: dict[str, Any] = {"TableName": parts["table"]}
    for name, member in (("item", "Item"), ("key", "Key")):
        if name in parts:
            body[member] = typed_item(parts[name])
    expression = update_expression(
        lifted, *(_clauses(parts.get(word)) for word in ("set", "remove", "add", "delete"))
    )
    if expression:
        body["UpdateExpression"] = expression
    if "if" in parts:
        body["ConditionExpression"] = lifted.lift(parts["if"])
    if "select" in parts:
        body["ProjectionExpression"] = lifted.paths(parts["select"])
    if parts.get("show_old"):
        body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return body | lifted.body()


def _clauses(value: str | list[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else value
