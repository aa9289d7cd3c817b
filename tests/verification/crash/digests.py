"""Digests of served states, compared with a refold of the log."""

from dataclasses import dataclass, field
from pathlib import Path

from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import fold_record
from tests.support.raw import ask


@dataclass
class Digests:
    """The digests of served states, by the offset of the last entry."""

    served: dict[int, str] = field(default_factory=dict)

    def note(self, url: str) -> None:
        """Record the digest of the server at `url`."""
        answer = ask(url, "Foldb_20261121.Digest", {}).body
        self.served[int(answer["Position"].rpartition(":")[2])] = answer["Digest"]

    def check(self, folder: Path) -> int:
        """Refold the log, compare the state at each recorded offset, and return the number of comparisons."""
        state = PartitionState()
        refolded: dict[int, str] = {}
        for record in LocalLog.open_reader(folder).read(0):
            fold_record(state, record)
            if record.offset in self.served:
                refolded[record.offset] = digest(state)
        assert self.served == refolded
        return len(refolded)
