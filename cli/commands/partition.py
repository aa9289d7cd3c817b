"""`foldb partition`: find the partition of a key."""

from ..lib.command_group import CommandGroup
from ..lib.options import KeyWords, TableArgument
from ..lib.session import Session
from ..lib.values import read_item

app = CommandGroup()


@app.callback()
def main() -> None:
    """Make typer keep `of` as a subcommand although it is the only one."""


@app.command()
def of(session: Session, table: TableArgument, key: KeyWords) -> None:
    """Print the slot of a key, its partition, and the node that owns the partition.

    The sort key may be omitted, because the partition key alone decides.

    Example: foldb partition of Music Kyuss
    """
    if len(key) == 1 and not key[0].lstrip().startswith("{"):
        shape = session.shape(table)
        [name] = shape.key_names(role="HASH")
        wanted = {name: shape.value(name, key[0])}
    elif len(key) == 1:
        wanted = read_item(key[0], "the key", is_typed=session.settings.typed)
    else:
        wanted = session.shape(table).read_key(key, is_typed=session.settings.typed)
    session.output.row(session.client.admin("Partition", {"TableName": table, "Key": wanted}))
