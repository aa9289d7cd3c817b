"""The type that a function's parameters name."""

from collections.abc import Callable
from typing import Any

import pytest

from foldb import Change, Window
from foldb.streams.workers.runtime.functions import gatherer, takes_window


def function(parameters: str, types: str) -> Callable[..., Any]:
    """Return a function with these parameters, in a module with these names."""
    module: dict[str, Any] = {"Change": Change, "Window": Window}
    exec(f"{types}\ndef f({parameters}): ...", module)
    made: Callable[..., Any] = module["f"]
    return made


@pytest.mark.parametrize("how", ["evaluated", "as text", "for a type checker alone"])
@pytest.mark.parametrize(
    ("annotation", "gathered"),
    [
        ("Annotated[list[Change], 5]", list),
        ("Annotated['list[Change]', 5]", list),
        ("Optional[List[Change]]", list),
        ("list[Change] | None", list),
        ("Union[Annotated[Sequence[Change], 5], Sequence[Change], None]", list),
        ("MutableSequence[Change]", list),
        ("tuple[Change, ...]", tuple),
        ("Change | list[Change]", None),
        ("Annotated[Change, list]", None),
    ],
)
def test_a_list_of_changes_is_known_in_every_notation(
    annotation: str, gathered: type | None, how: str
) -> None:
    types = "from collections.abc import *; from typing import *"
    written = annotation if how == "evaluated" else repr(annotation)
    if how == "for a type checker alone":
        types = f"if False: {types}"
        written += ", more: 'Unknown' = None"

    assert gatherer(function(f"changes: {written}", types)) == gathered


@pytest.mark.parametrize(
    ("second", "is_window"),
    [
        ("window", True),
        ("w", True),
        ("window=None", True),
        ("w: Window | None = None", True),
        ("w: 'Optional[Window]' = None", True),
        ("target: str = 'lake'", False),
        ("*, window", False),
    ],
)
def test_a_second_parameter_with_a_default_is_ignored(second: str, is_window: bool) -> None:
    assert takes_window(function(f"changes: list[Change], {second}", "")) == is_window
