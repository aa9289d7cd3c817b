"""Every target by its name."""

from tests.verification.fuzz import (
    of_expressions,
    of_files,
    of_http,
    of_log,
    of_requests,
    of_statements,
    of_values,
)
from tests.verification.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (of_expressions, of_statements, of_values, of_log, of_files, of_http, of_requests)
    for target in module.TARGETS
}
