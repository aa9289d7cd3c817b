"""A client that reads what it has written, in global indexes too, wherever partitions make them follow later.

It remembers how far each partition was when its requests were answered, and asks every read to be no older. Where there
is one partition nothing follows, and nothing is asked.
"""

from typing import Any

_HEADER = "x-foldb-position"


class Positions:
    """How far a client knows each partition to be."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str]] = {}

    def follow(self, client: Any) -> Any:
        """Have a boto3 client read its own writes."""
        client.meta.events.register("before-send.dynamodb", self._ask)
        client.meta.events.register("needs-retry.dynamodb", self._note)
        return client

    @property
    def cut(self) -> str:
        """All of them, as the header says it."""
        return ",".join(text for _, text in self._known.values())

    def note(self, position: str) -> None:
        """Take the positions of an answer; a partition's later one stays."""
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
