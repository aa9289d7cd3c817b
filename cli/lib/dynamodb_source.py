"""A table of another DynamoDB endpoint as the source of a copy: its definition, its items, and its stream of changes.

boto3 finds the credentials and the region, signs, and retries. Items are in DynamoDB JSON as foldb's client sends it:
binary values are base64 and not bytes.
"""

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ...model.values import Item
from .errors import CommandError, ExitCode

_ATTEMPTS: Final = 10
_PAGE: Final = 1000  # items of a scan, or changes: a state is saved after each page
_QUIET_POLLS: Final = 5
_POLL_S: Final = 0.25
_VIEWS: Final = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


class DynamoDBSource:
    """A table of a DynamoDB endpoint."""

    def __init__(self, table: str, endpoint: str | None, region: str | None, profile: str | None) -> None:
        """Connect to the table.

        Raises:
            CommandError: boto3 is not installed, has no credentials or region, or the table does not exist.
        """
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise CommandError("--from-aws needs boto3: pip install 'foldb[boto3]'", ExitCode.USAGE) from None
        self.table = table
        with errors():
            session = boto3.Session(profile_name=profile, region_name=region)
            configuration = Config(retries={"max_attempts": _ATTEMPTS, "mode": "standard"})
            self._client = session.client("dynamodb", endpoint_url=endpoint, config=configuration)
            self._streams = session.client("dynamodbstreams", endpoint_url=endpoint, config=configuration)
            self.description: dict[str, Any] = self._client.describe_table(TableName=table)["Table"]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._streams.close()

    @property
    def arn(self) -> str:
        return str(self.description["TableArn"])

    def tags(self) -> list[dict[str, str]]:
        """Return the tags, of all pages."""
        found: list[dict[str, str]] = []
        request = {"ResourceArn": self.arn}
        while True:
            with errors():
                answer = self._client.list_tags_of_resource(**request)
            found += answer["Tags"]
            if not answer.get("NextToken"):
                return found
            request["NextToken"] = answer["NextToken"]

    def ttl_attribute(self) -> str | None:
        """Return the attribute with the time of expiry. None if items do not expire."""
        with errors():
            answer = self._client.describe_time_to_live(TableName=self.table)["TimeToLiveDescription"]
        enabled = answer["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
        return str(answer["AttributeName"]) if enabled else None

    def page(self, segment: int, segments: int, after: Item | None) -> tuple[list[Item], Item | None]:
        """Return a page of a segment of the table, at most 1 MB, and the key after which the next page begins."""
        request: dict[str, Any] = {"TableName": self.table, "Limit": _PAGE}
        request |= {"Segment": segment, "TotalSegments": segments}
        if after is not None:
            request["ExclusiveStartKey"] = to_boto(after)
        with errors():
            answer = self._client.scan(**request)
        last = answer.get("LastEvaluatedKey")
        return [from_boto(item) for item in answer["Items"]], None if last is None else from_boto(last)

    def count(self) -> int:
        """Return the number of items, by a scan that returns no items but costs the same."""
        found = 0
        request: dict[str, Any] = {"TableName": self.table, "Select": "COUNT", "ConsistentRead": True}
        while True:
            with errors():
                answer = self._client.scan(**request)
            found += int(answer["Count"])
            if "LastEvaluatedKey" not in answer:
                return found
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def check_stream(self) -> None:
        """Check that the table has a stream with new images.

        Raises:
            CommandError: The table has no stream, or one without new images.
        """
        view = self.description.get("StreamSpecification", {}).get("StreamViewType")
        if view not in _VIEWS:
            raise CommandError(
                f"{self.table} has no stream with new images: enable one with NEW_IMAGE or NEW_AND_OLD_IMAGES, or copy "
                "without --follow",
                ExitCode.USAGE,
            )

    def shards(self) -> list[dict[str, Any]]:
        """Return the shards of the stream, of all pages."""
        found: list[dict[str, Any]] = []
        request = {"StreamArn": self.description["LatestStreamArn"]}
        while True:
            with errors():
                answer = self._streams.describe_stream(**request)["StreamDescription"]
            found += answer["Shards"]
            if "LastEvaluatedShardId" not in answer:
                return found
            request["ExclusiveStartShardId"] = answer["LastEvaluatedShardId"]

    def iterator(self, shard: str, after: str | None) -> str:
        """Return an iterator of a shard, after a sequence number or from the oldest change on.

        Raises:
            CommandError: The stream no longer has the change.
        """
        request = {"StreamArn": self.description["LatestStreamArn"], "ShardId": shard}
        if after is None:
            request |= {"ShardIteratorType": "TRIM_HORIZON"}
        else:
            request |= {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after}
        with errors():
            return str(self._streams.get_shard_iterator(**request)["ShardIterator"])

    def records(self, iterator: str) -> tuple[list[dict[str, Any]], str | None]:
        """Return the next changes of a shard, and the next iterator: None at the end of a closed shard."""
        with errors():
            answer = self._streams.get_records(ShardIterator=iterator, Limit=_PAGE)
        return answer["Records"], answer.get("NextShardIterator")


class StreamReader:
    """Reads the changes of a stream: those of a shard in order, and those of a parent before those of its children.

    Attributes:
        shards: By shard, the sequence number of the last applied change, and whether the whole shard is applied.
    """

    def __init__(
        self,
        source: DynamoDBSource,
        shards: dict[str, Any],
        apply: Callable[[list[dict[str, Any]]], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.shards = shards
        self._source = source
        self._apply = apply
        self._sleep = sleep
        self._iterators: dict[str, str] = {}

    def follow(self, *, until_caught_up: bool, on_progress: Callable[[int], None]) -> None:
        """Apply changes until no shard has had any for some polls, or forever."""
        quiet = 0
        while not (until_caught_up and quiet >= _QUIET_POLLS):
            applied = self._poll()
            on_progress(applied)
            quiet = 0 if applied else quiet + 1
            if not applied:
                self._sleep(_POLL_S)

    def _poll(self) -> int:
        """Apply one page of each shard that is due, and return the number of changes."""
        listed = self._source.shards()
        known = {shard["ShardId"] for shard in listed}
        applied = 0
        for shard in listed:
            name, parent = shard["ShardId"], shard.get("ParentShardId")
            state = self.shards.setdefault(name, {"after": None, "done": False})
            is_early = parent in known and not self.shards.get(str(parent), {}).get("done")
            if state["done"] or is_early:
                continue
            if name not in self._iterators:
                self._iterators[name] = self._source.iterator(name, state["after"])
            records, following = self._source.records(self._iterators.pop(name))
            if records:
                self._apply(records)
                state["after"] = records[-1]["dynamodb"]["SequenceNumber"]
                applied += len(records)
            if following is None:
                state["done"] = True
            else:
                self._iterators[name] = following
        return applied


def change_requests(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the requests of BatchWriteItem for changes, one for each key: that of its last change."""
    last: dict[str, dict[str, Any]] = {}
    for record in records:
        change = record["dynamodb"]
        key = from_boto(change["Keys"])
        if record["eventName"] == "REMOVE":
            request: dict[str, Any] = {"DeleteRequest": {"Key": key}}
        else:
            request = {"PutRequest": {"Item": from_boto(change["NewImage"])}}
        last[repr(sorted(key.items()))] = request
    return list(last.values())


def from_boto(item: Mapping[str, Any]) -> Item:
    """Return an item of boto3, with base64 in place of bytes.

    >>> from_boto({"a": {"B": b"hi"}, "b": {"L": [{"BS": [b"hi"]}]}})
    {'a': {'B': 'aGk='}, 'b': {'L': [{'BS': ['aGk=']}]}}
    """
    return {
        name: _converted(value, lambda data: base64.b64encode(data).decode()) for name, value in item.items()
    }


def to_boto(item: Item) -> dict[str, Any]:
    """Return an item as boto3 takes it, with bytes in place of base64."""
    return {name: _converted(value, base64.b64decode) for name, value in item.items()}


def _converted(value: Mapping[str, Any], binary: Callable[[Any], Any]) -> dict[str, Any]:
    [(kind, content)] = value.items()
    match kind:
        case "B":
            return {kind: binary(content)}
        case "BS":
            return {kind: [binary(each) for each in content]}
        case "L":
            return {kind: [_converted(each, binary) for each in content]}
        case "M":
            return {kind: {name: _converted(each, binary) for name, each in content.items()}}
    return {kind: content}


@contextmanager
def errors() -> Iterator[None]:
    """Turn an error of boto3 into a CommandError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        details = error.response["Error"]
        is_missing = details["Code"] == "ResourceNotFoundException"
        step = (
            "Check the table's name, --region and --aws-profile."
            if is_missing
            else "Run the command again to continue."
        )
        raise CommandError(
            f"the source answers {details['Code']}: {details['Message'].rstrip('.')}. {step}",
            ExitCode.NOT_FOUND if is_missing else ExitCode.UNREACHABLE,
        ) from error
    except (BotoCoreError, ValueError) as error:  # botocore has no type of its own for a malformed address
        raise CommandError(
            f"the source cannot be read: {error}. Check --endpoint-url, --region and the AWS credentials.",
            ExitCode.UNREACHABLE,
        ) from error
