"""foldb's own operations, behind `Foldb_20261121.` in X-Amz-Target. Related ones share a file."""

from ..operation import operations_in

ADMIN = operations_in(__name__, __path__)
