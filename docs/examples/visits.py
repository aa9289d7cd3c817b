"""Count the visits of each page per minute of log time, and write the counts after each minute.

The key of the table Minutes is page and minute, so a replay writes the same items again.
"""

import boto3

from foldb import Change, Window, trigger

minutes = boto3.resource("dynamodb").Table("Minutes")


@trigger("Visits", on="INSERT", batch=1000, tumbling="1m")
def count(changes: list[Change], window: Window) -> None:
    for change in changes:
        page = change.new["page"]
        window.state[page] = window.state.get(page, 0) + 1
    if window.is_final:
        with minutes.batch_writer() as batch:
            for page, visits in window.state.items():
                batch.put_item(Item={"page": page, "minute": window.start.isoformat(), "visits": visits})
