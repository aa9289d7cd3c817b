"""A client that reads its own writes, also in global indexes, when partitions apply them later.

It remembers the position of each partition in the answers that it received, and requires every read to be no older.
With one partition it sends no header, because every read is current.
"""

from typing import Any

_HEADER = "x-foldb-position"


class Positions:
    """The positions that a client has seen, by partition."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str]] = {}

    def follow(self, client: Any) -> Any:
        """Make a boto3 client read its own writes."""
        client.meta.events.register("before-send.dynamodb", self._ask)
        client.meta.events.register("needs-retry.dynamodb", self._note)
        return client

    @property
    def cut(self) -> str:
        """All positions, as the header carries them."""
        return ",".join(text for _, text in self._known.values())

    def note(self, position: str) -> None:
        """Remember the positions of an answer; the later one of a partition counts."""
        for text in position.split(",") if ":" in position else ():
            partition, _, place = text.partition(":")
            offset = int(place.partition(".")[0])
            if offset >= self._known.get(partition, (-1, ""))[0]:
                self._known[partition] = offset, text

    def _ask(self, request: Any, **_: Any) -> None:
        if self._known:
            request.headers[_HEADER] = self.cut

    def _note(self, response: Any, **_: Any) -> None:
        if response is not None and _HEADER in response[0].headers:
            self.note(response[0].headers[_HEADER])
