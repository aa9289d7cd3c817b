"""The reason of a request: clients say in `x-foldb-reason` why they write, and the log keeps it with the command.

    header ──► check_reason ──► Context of the command ──► foldb log cat

With `--keys` the header must be signed (auth/verify.py): otherwise another sender could change it on the way.
"""

from typing import Final

from ...materializer.fold.state import HISTORY_LEVEL
from ...model.errors import ValidationError

REASON_BYTES: Final = 512
"""Each action of a transaction has the reason in the log: a hundred of them add 50 KB to an entry of at most 4 MB."""


def check_reason(header: bytes, level: int) -> None:
    """Check the reason of a request; `level` is that of the log.

    Raises:
        ValidationError: The header is not a reason, or the log's level is too low to keep it.
    """
    try:
        text = header.decode()
    except UnicodeDecodeError:
        text = ""
    if len(header) > REASON_BYTES or not text.strip() or not text.isprintable():
        raise ValidationError(f"x-foldb-reason must be 1 to {REASON_BYTES} bytes of printable UTF-8")
    if level < HISTORY_LEVEL:
        raise ValidationError(
            f"x-foldb-reason needs a log of level {HISTORY_LEVEL}, and this one has level {level}: run `foldb upgrade` "
            "once every node is of this release"
        )
