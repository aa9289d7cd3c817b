"""What servers said their state was, compared with what their log folds to in the end."""

from dataclasses import dataclass, field
from pathlib import Path

from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import fold_record
from tests.support.raw import ask


@dataclass
class Digests:
    """The canonical state that was served, by the offset of its last entry."""

    served: dict[int, str] = field(default_factory=dict)

    def note(self, url: str) -> None:
        """Keep what the server at `url` has now."""
        answer = ask(url, "Foldb_20261121.Digest", {}).body
        self.served[int(answer["Position"].rpartition(":")[2])] = answer["Digest"]

    def check(self, folder: Path) -> int:
        """Fold the log from zero: at each offset it makes what was served there. How many were compared."""
        state = PartitionState()
        refolded: dict[int, str] = {}
        for record in LocalLog.open_reader(folder).read(0):
            fold_record(state, record)
            if record.offset in self.served:
                refolded[record.offset] = digest(state)
        assert self.served == refolded
        return len(refolded)
