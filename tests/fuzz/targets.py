"""Every target by its name."""

from . import of_expressions, of_http, of_log, of_requests, of_values
from .target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (of_expressions, of_values, of_log, of_http, of_requests)
    for target in module.TARGETS
}
