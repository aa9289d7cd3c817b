"""The rules for the document of a resource policy, which the server applies before it writes the command.

    Policy of PutResourcePolicy, ResourcePolicy of CreateTable ──► canonical text of the command

The fold stores any text: a later release may refuse a document that a log contains.
"""

from typing import Final

from ...materializer.fold.state import HISTORY_LEVEL
from ...model.errors import ValidationError
from ...model.index_requests import INVALID
from ..auth.policy_document import (
    INVALID_PRINCIPAL,
    POLICY_BYTES,
    UNBOUNDED,
    Holder,
    PolicyError,
    parse_policy,
)
from ..database import Database

_MALFORMED: Final = f"{INVALID}Invalid policy document: "
_LEADS: Final = {UNBOUNDED: "", INVALID_PRINCIPAL: INVALID}
"""The beginnings of DynamoDB's errors about a document, by its text; the others begin with _MALFORMED."""


def canonical_policy(database: Database, text: str, holder: Holder) -> str:
    """Return a document in canonical form.

    Raises:
        ValidationError: The document is too long or malformed, has an element that foldb does not support, or the log's
            level is too low to keep it.
    """
    check_level(database)
    if len(text.encode()) > POLICY_BYTES:
        raise ValidationError(f"{INVALID}Maximum policy size of {POLICY_BYTES} bytes exceeded")
    try:
        return parse_policy(text, holder).text
    except PolicyError as error:
        raise ValidationError(_LEADS.get(str(error), _MALFORMED) + str(error)) from None


def check_level(database: Database) -> None:
    """Check that the log can keep policies.

    Raises:
        ValidationError: The log's level is too low.
    """
    if database.state.level < HISTORY_LEVEL:
        raise ValidationError(
            f"A resource policy needs a log of level {HISTORY_LEVEL}, and this one has level {database.state.level}: "
            "run `foldb upgrade` once every node is of this release"
        )
