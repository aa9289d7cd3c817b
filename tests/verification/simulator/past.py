"""The past of a history by effective time, from a model of its own that keeps every version.

    writes of the folds ──► versions, by store and key ──► contents at every moment T ──► money is only moved

The contents change at effective times only, so checking them at each of these checks every millisecond.
"""

from itertools import groupby
from operator import attrgetter

from tests.support.versions import check_newest, check_order
from tests.verification.histories.history import History
from tests.verification.simulator.checks import check_whole, keys_of
from tests.verification.simulator.clients import requests
from tests.verification.simulator.cuts import Folded


def check_past(history: History, partitions: list[Folded], table: int) -> int:
    """Check the versions of all partitions; return the number of checked moments."""
    for each in partitions:
        check_order(each.versions)
        check_newest(each.versions, each.state)
    return _check_moments(history, partitions, table)


def _check_moments(history: History, partitions: list[Folded], table: int) -> int:
    """Check the items of the history's table at each effective time."""
    of_table = (version for each in partitions for version in each.versions if version.store == table)
    items: dict[bytes, bytes] = {}
    keys, moments = keys_of(history), 0
    for _, written in groupby(sorted(of_table, key=_EFFECTIVE_TIME), key=_EFFECTIVE_TIME):
        for version in written:  # sorted is stable: the last version at a key is the last one written
            if version.stored is None:
                items.pop(version.pk, None)
            else:
                items[version.pk] = version.stored[0]
        check_whole(history, {key: requests.state(key, items.get(requests.pk_of(key))) for key in keys})
        moments += 1
    return moments


_EFFECTIVE_TIME = attrgetter("effective_time")
