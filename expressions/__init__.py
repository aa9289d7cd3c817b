"""The expression languages and the legacy parameters: parsed once, evaluated many times.

    texts, names, types of values ──► compile ──► Plan ──► Condition.holds(item, values)
    legacy parameters ──► compile_legacy ──► (Plan, values)  Update.apply(item, values, limits)
                                                            Projection.apply(item)
                                                            key_range(key condition, schema, values)

Five parameters hold expressions, in three languages: conditions (also filters and key conditions), updates and
projections. Each language has a parser that returns a `tree`; the evaluating modules compile it to closures. All
modules are pure.
"""

from .conditions import Condition
from .key_conditions import (
    KeyCondition,
    KeyRange,
    key_range,
    refuse_key_filter,
    refuse_key_paths,
    refuse_key_update,
)
from .legacy import LegacyPlan, compile_legacy
from .parameters import check_mixing, check_names, check_substitution_size, check_substitutions
from .parser import Names, Values
from .plans import Plan, compile  # noqa: A004  # the agreed name
from .projections import CompiledProjection
from .updates import CompiledUpdate, Updated

__all__ = [
    "CompiledProjection",
    "CompiledUpdate",
    "Condition",
    "KeyCondition",
    "KeyRange",
    "LegacyPlan",
    "Names",
    "Plan",
    "Updated",
    "Values",
    "check_mixing",
    "check_names",
    "check_substitution_size",
    "check_substitutions",
    "compile",
    "compile_legacy",
    "key_range",
    "refuse_key_filter",
    "refuse_key_paths",
    "refuse_key_update",
]
