"""Count the instructions that `foldb serve --throttle` adds to a request.

Each of 32 connections sends a request, and waits until all are answered. Their table has more throughput than the
load, so no request is throttled. PYTHONPATH selects another build:

    PYTHONPATH=build/compiled python -m benchmarks throttling
"""

from foldb.version import build

from .cpu import CONNECTIONS, KINDS
from .instructions import of_requests, require_valgrind
from .options import Options
from .requests import TABLE
from .tables import at_most, show

GOAL = 1.05
_UNITS = {"ReadCapacityUnits": 40_000, "WriteCapacityUnits": 40_000}
_TABLE = {**TABLE, "BillingMode": "PROVISIONED", "ProvisionedThroughput": _UNITS}


def measure(options: Options) -> None:
    """Print the instructions of a request with and without throttling."""
    require_valgrind()
    plain, throttled = (
        of_requests(KINDS, flags, _TABLE, options, options.port + place)
        for place, flags in enumerate(([], ["--throttle"]))
    )
    rows = [
        [name, f"{plain[name]:,.0f}", f"{throttled[name]:,.0f}", at_most(throttled[name] / plain[name], GOAL)]
        for name in KINDS
    ]
    columns = ["", "instructions a request", "with --throttle", "ratio"]
    show(f"throttling, {CONNECTIONS} connections, {build()} build", columns, rows)
