"""What an operation is: a function from a request to an answer, now or later."""

from collections.abc import Callable
from typing import Any, TypeAlias

from .node import Node
from .reply import Reply

Handler: TypeAlias = Callable[[Node, dict[str, Any], Reply], None]
