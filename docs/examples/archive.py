"""What expires is archived: each item that its time to live has removed becomes a file of its own.

ARCHIVE names the folder; it stands in the file .env beside this one. A file is named by the change that it is of, so
one that is delivered twice is written twice, to the same place.
"""

import json
import os
from pathlib import Path

from foldb import Change, trigger

ARCHIVE = Path(os.environ["ARCHIVE"])


@trigger("Sessions", on="REMOVE")
def archive(change: Change) -> None:
    if change.source != "ttl":
        return  # somebody deleted it: that is not for the archive
    file = ARCHIVE / f"{change.number}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"expired": change.time, "item": change.old}, default=str))
    part.replace(file)
