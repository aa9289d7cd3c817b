"""What an expression may not do to the attributes of a key. Known only with the table's schema."""

from collections.abc import Iterable

from ..model.errors import ValidationError
from .conditions import Condition
from .paths import Projection
from .updates import Update


def refuse_key_filter(condition: Condition, key_names: Iterable[str]) -> None:
    """Refuse a Query's filter on the key that is queried: the key condition is the place for it."""
    for name in key_names:
        if name in condition.attributes:
            what = "Filter Expression" if condition.parameter == "FilterExpression" else condition.parameter
            raise ValidationError(
                f"{what} can only contain non-primary key attributes: Primary key attribute: {name}"
            )


def refuse_key_update(update: Update, key_names: Iterable[str]) -> None:
    """Refuse an update that writes to the table's key."""
    for name in key_names:
        if name in update.targets.attributes:
            raise ValidationError(
                "One or more parameter values were invalid: "
                f"Cannot update attribute {name}. This attribute is part of the key"
            )


def refuse_key_paths(
    part: Condition | Projection | Update, key_names: Iterable[str], role: str = "Key"
) -> None:
    """Refuse paths into a key attribute, which is always a scalar; `role` is "IndexKey" for an index."""
    for name in key_names:
        if name in part.nested:
            raise ValidationError(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
                f"{role}: {name}"
            )
