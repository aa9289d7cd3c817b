"""Arguments and options that several commands share."""

from typing import Annotated, TypeAlias

import typer

TableName: TypeAlias = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
KeyWords: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="KEY...", help="Partition key and sort key, or one JSON object.")
]
Values: TypeAlias = Annotated[
    list[str] | None, typer.Option("--value", metavar=":X=JSON", help="A value for a placeholder; repeat it.")
]
Names: TypeAlias = Annotated[
    list[str] | None, typer.Option("--name", metavar="#N=NAME", help="A name for a placeholder; repeat it.")
]
Condition: TypeAlias = Annotated[
    str | None, typer.Option("--if", metavar="CONDITION", help="Write only if this holds for the item.")
]
ShowOld: TypeAlias = Annotated[
    bool, typer.Option("--show-old", help="Print the item that the condition did not hold for.")
]
Set: TypeAlias = Annotated[list[str] | None, typer.Option("--set", metavar="'A = B'", help="Set attributes.")]
Remove: TypeAlias = Annotated[
    list[str] | None, typer.Option("--remove", metavar="A,B", help="Remove attributes.")
]
Add: TypeAlias = Annotated[
    list[str] | None, typer.Option("--add", metavar="'A 1'", help="Add to a number or set.")
]
Subtract: TypeAlias = Annotated[
    list[str] | None, typer.Option("--delete", metavar="'A :x'", help="Take elements out of a set.")
]
Consistent: TypeAlias = Annotated[bool, typer.Option("--consistent", help="A strongly consistent read.")]
Select: TypeAlias = Annotated[
    str | None, typer.Option("--select", metavar="A,B", help="Only these attributes, or `count`.")
]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="Only items for which this holds.")
]
Index: TypeAlias = Annotated[str | None, typer.Option("--index", metavar="NAME", help="Read this index.")]
Limit: TypeAlias = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many items.")]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All pages, not only the first.")]
Start: TypeAlias = Annotated[
    str | None, typer.Option("--start", metavar="JSON", help="Go on behind this key, as a footer gave it.")
]
FailEmpty: TypeAlias = Annotated[bool, typer.Option("--fail-empty", help="Exit with 1 if nothing matched.")]
