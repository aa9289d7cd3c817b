"""Arguments and options that several commands share."""

from typing import Annotated, TypeAlias

import typer

TableArgument: TypeAlias = Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table.")]
KeyWords: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="KEY...", help="The partition key and sort key, or one JSON object.")
]
ValuesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--value", metavar=":X=JSON", help="Set the value of a placeholder. Repeat the flag for more."
    ),
]
NamesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="#N=NAME", help="Set the attribute name of a placeholder. Repeat the flag for more."
    ),
]
ConditionOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--if", metavar="CONDITION", help="Write only if this is true of the current item."),
]
ShowOld: TypeAlias = Annotated[
    bool, typer.Option("--show-old", help="Print the current item if the condition fails.")
]
Set: TypeAlias = Annotated[list[str] | None, typer.Option("--set", metavar="'A = B'", help="Set attributes.")]
Remove: TypeAlias = Annotated[
    list[str] | None, typer.Option("--remove", metavar="A,B", help="Remove attributes.")
]
Add: TypeAlias = Annotated[
    list[str] | None, typer.Option("--add", metavar="'A 1'", help="Add to a number or a set.")
]
Subtract: TypeAlias = Annotated[
    list[str] | None, typer.Option("--delete", metavar="'A :x'", help="Delete elements of a set.")
]
Consistent: TypeAlias = Annotated[
    bool, typer.Option("--consistent", help="Make the read strongly consistent.")
]
Select: TypeAlias = Annotated[
    str | None, typer.Option("--select", metavar="A,B", help="Print only these attributes, or `count`.")
]
Where: TypeAlias = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="Print only items for which this is true.")
]
IndexOption: TypeAlias = Annotated[
    str | None, typer.Option("--index", metavar="NAME", help="Read this index.")
]
LimitOption: TypeAlias = Annotated[int | None, typer.Option("--limit", min=1, help="Read at most N items.")]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="Read all pages, not only the first.")]
StartOption: TypeAlias = Annotated[
    str | None, typer.Option("--start", metavar="JSON", help="Start after this key, which a footer printed.")
]
FailEmpty: TypeAlias = Annotated[
    bool, typer.Option("--fail-empty", help="Exit with code 1 if no item matches.")
]
