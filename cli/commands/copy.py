"""`foldb copy`: copy tables from another DynamoDB endpoint, such as AWS.

    table, indexes, tag ──► parallel scan ──► BatchWriteItem ──► changes of the stream ──► settings, counts

A file keeps the progress of each segment and shard. A tag of the new table says that the copy is not complete: a second
run continues it, from the file or from the beginning. A repeated write of an item is harmless.
"""

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from ...model.lazy_dataclass import dataclass
from ..lib.batch_writer import BatchWriter
from ..lib.definitions import request_like
from ..lib.dynamodb_source import DynamoDBSource, StreamReader, change_requests
from ..lib.errors import CommandError, ExitCode, RequestFailedError
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.session import Session
from ..lib.table_status import until_settled

TAG: Final = "foldb:copied-from"
"""The tag of a table whose copy is not complete, with the ARN of the source."""

_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The endpoint from which tables are copied. boto3 finds the credentials, as the AWS tools do."""

    from_aws: Annotated[
        bool,
        typer.Option("--from-aws", help="Copy from AWS, or from the DynamoDB endpoint of --endpoint-url."),
    ] = False
    endpoint_url: Annotated[
        str | None,
        typer.Option(metavar="URL", show_default="that of the region", help="Copy from this endpoint."),
    ] = None
    region: Annotated[
        str | None, typer.Option(metavar="REGION", show_default="that of the profile", help="The AWS region.")
    ] = None
    aws_profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default="$AWS_PROFILE", help="The AWS profile of the source."),
    ] = None


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """Whether to apply the changes that come after the scan."""

    follow: Annotated[
        bool, typer.Option("--follow", help="Then apply the changes of the source's stream, until Ctrl-C.")
    ] = False
    until_caught_up: Annotated[
        bool,
        typer.Option("--until-caught-up", help="As --follow, but end at the end of the stream."),
    ] = False

    @property
    def follows(self) -> bool:
        return self.follow or self.until_caught_up


def copy(
    session: Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table at the source.")],
    source: SourceOptions,
    following: FollowOptions,
    into: Annotated[
        str | None,
        typer.Option(metavar="NEW", show_default="that of the source", help="The name of the copy."),
    ] = None,
    segments: Annotated[int, typer.Option(min=1, max=100, help="Read this many segments in parallel.")] = 4,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default="NEW.copy.json", help="The file with the progress of the copy."
        ),
    ] = None,
) -> None:
    """The copy has keys, indexes, billing and items; at its end it gets tags, expiry, stream and protection.

    The command creates the table, reads the source with a parallel scan, one page of at most 1 MB for each segment, and
    writes batches. Run it again to continue an interrupted copy. At the end the items of both tables are counted: exit
    code 1 if the numbers differ. The source should not change, unless --until-caught-up applies its changes; with it
    the items of the source are counted by a second scan. A copy with --follow is completed by a last run with
    --until-caught-up.

    Example: foldb copy Orders --from-aws --region eu-west-1
    """
    if not source.from_aws:
        raise CommandError(
            "name the source: --from-aws, with --endpoint-url for another endpoint", ExitCode.USAGE
        )
    with closing(DynamoDBSource(table, source.endpoint_url, source.region, source.aws_profile)) as origin:
        if following.follows:
            origin.check_stream()
        new = into or table
        job = _Job(session, origin, new, state or Path(f"{new}.copy.json"), segments)
        try:
            if _create(session, origin, new):
                job.path.unlink(missing_ok=True)  # of a copy that was deleted since
            job.load()
            job.copy_segments()
            if following.follows:
                job.follow(until_caught_up=following.until_caught_up)
        except KeyboardInterrupt as error:
            raise CommandError(
                f"interrupted after {counted(job.items, 'item')}; run the same command again to continue",
                ExitCode.INTERRUPTED,
            ) from error
        expected = origin.count() if following.follows else job.items
        found = _count(session, new)
        _finish(session, origin, new)
        job.path.unlink(missing_ok=True)
        session.output.row(
            {
                "table": new,
                "from": origin.arn,
                "items": found,
                "source_items": expected,
                "changes": job.changes,
            }
        )
        if found != expected:
            raise CommandError(
                f"{new} has {counted(found, 'item')} and the source {expected:,}: did one of them change during the "
                f"copy? Delete {new} and copy it again, with --until-caught-up if the source has a stream.",
                ExitCode.DIFFERENT,
            )


class _Job:
    """The copy of the items, whose progress a file keeps.

    Attributes:
        items: The copied items, also those of earlier runs.
        changes: The applied changes of the stream.
    """

    def __init__(self, session: Session, source: DynamoDBSource, new: str, path: Path, segments: int) -> None:
        self.path = path
        self.changes = 0
        self._session = session
        self._source = source
        self._new = new
        self._identity = {
            "source": source.arn,
            "created": str(source.description["CreationDateTime"]),
            "into": new,
        }
        self._segments: list[dict[str, Any]] = [
            {"after": None, "done": False, "items": 0} for _ in range(segments)
        ]
        self._shards: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    @property
    def items(self) -> int:
        return sum(segment["items"] for segment in self._segments)

    def load(self) -> None:
        """Continue the copy of the file, if it is one of this table, with its number of segments."""
        try:
            saved = orjson.loads(self.path.read_bytes())
        except FileNotFoundError:
            return
        except orjson.JSONDecodeError as error:
            raise CommandError(
                f"{self.path} is not the state of a copy: remove it, or give --state FILE", ExitCode.USAGE
            ) from error
        if saved.get("identity") != self._identity:
            raise CommandError(
                f"{self.path} is the state of another copy: remove it, or give --state FILE", ExitCode.USAGE
            )
        self._segments, self._shards = saved["segments"], saved["shards"]
        self._session.output.say(f"continued after {counted(self.items, 'item')}")

    def copy_segments(self) -> None:
        """Copy the rest of each segment, each in a thread."""
        shape = self._session.shape(self._new)
        clients = [self._session.client.copy() for _ in self._segments]
        writers = [BatchWriter(client, shape) for client in clients]
        expected = self._source.description.get("ItemCount")
        settings, console = self._session.settings, self._session.output.stderr
        self._save()
        with (
            progress(settings, console, self._new, expected) as advance,
            ThreadPoolExecutor(len(writers)) as pool,
        ):
            work = [pool.submit(self._copy_segment, nth, writer) for nth, writer in enumerate(writers)]
            try:
                self._watch(work, advance)
            finally:
                self._stopping.set()
        for client in clients:
            client.close()
        for each in work:
            each.result()

    def _watch(self, work: list[Future[None]], advance: Any) -> None:
        """Show the progress until all segments are copied, or one failed."""
        shown = 0
        waiting = set(work)
        while waiting:
            done, waiting = wait(waiting, timeout=_POLL_S)
            items = self.items
            advance(items - shown)
            shown = items
            if any(each.exception() is not None for each in done):
                return

    def _copy_segment(self, nth: int, writer: BatchWriter) -> None:
        segment = self._segments[nth]
        while not segment["done"] and not self._stopping.is_set():
            items, after = self._source.page(nth, len(self._segments), segment["after"])
            writer.load((f"{self._source.table} segment {nth}", item) for item in items)
            with self._lock:
                segment.update(after=after, done=after is None, items=segment["items"] + len(items))
                self._save()

    def follow(self, *, until_caught_up: bool) -> None:
        """Apply the changes of the stream, from its oldest one on: the last change of a key is its present item."""
        session = self._session
        with closing(session.client.copy()) as client:
            writer = BatchWriter(client, session.shape(self._new))
            reader = StreamReader(self._source, self._shards, lambda records: self._apply(writer, records))
            with progress(session.settings, session.output.stderr, "changes", None) as advance:

                def applied(changes: int) -> None:
                    self.changes += changes
                    self._save()
                    advance(changes)

                reader.follow(until_caught_up=until_caught_up, on_progress=applied)

    def _apply(self, writer: BatchWriter, records: list[dict[str, Any]]) -> None:
        requests = change_requests(records)
        for begin in range(0, len(requests), BatchWriter.BATCH):
            writer.send(requests[begin : begin + BatchWriter.BATCH])
        if writer.unprocessed:
            raise CommandError(
                f"{counted(writer.unprocessed, 'change')} not processed after retries: run the command again",
                ExitCode.PARTLY,
            )

    def _save(self) -> None:
        document = {"identity": self._identity, "segments": self._segments, "shards": self._shards}
        unfinished = self.path.with_name(f"{self.path.name}.new")
        unfinished.write_bytes(orjson.dumps(document))
        os.replace(unfinished, self.path)


def _create(session: Session, source: DynamoDBSource, new: str) -> bool:
    """Create the table, or continue with the table of an interrupted copy. Return whether it is new.

    Raises:
        CommandError: A table with this name exists.
    """
    mark = {"Key": TAG, "Value": source.arn}
    try:
        session.client.call("CreateTable", request_like(source.description, new) | {"Tags": [mark]})
    except RequestFailedError as failure:
        if failure.name != "ResourceInUseException":
            raise
        until_settled(session, new)
        if mark not in _tags(session, new):
            raise CommandError(
                f"the table {new} exists; give another name with --into", ExitCode.INVALID
            ) from failure
        return False
    until_settled(session, new)
    return True


def _finish(session: Session, source: DynamoDBSource, new: str) -> None:
    """Give the table the settings that would disturb a copy, and remove the tag of an incomplete one."""
    name = {"TableName": new}
    stream = source.description.get("StreamSpecification")
    if stream and stream.get("StreamEnabled"):
        session.client.call("UpdateTable", name | {"StreamSpecification": stream})
        until_settled(session, new)
    if attribute := source.ttl_attribute():
        specification = {"Enabled": True, "AttributeName": attribute}
        session.client.call("UpdateTimeToLive", name | {"TimeToLiveSpecification": specification})
    arn = session.shape(new).description["TableArn"]
    if tags := [tag for tag in source.tags() if not tag["Key"].startswith("aws:")]:
        session.client.call("TagResource", {"ResourceArn": arn, "Tags": tags})
    if source.description.get("DeletionProtectionEnabled"):
        session.client.call("UpdateTable", name | {"DeletionProtectionEnabled": True})
        until_settled(session, new)
    session.client.call("UntagResource", {"ResourceArn": arn, "TagKeys": [TAG]})


def _tags(session: Session, name: str) -> list[dict[str, str]]:
    arn = session.shape(name).description["TableArn"]
    tags: list[dict[str, str]] = session.client.call("ListTagsOfResource", {"ResourceArn": arn})["Tags"]
    return tags


def _count(session: Session, name: str) -> int:
    """Return the number of items of the copy."""
    found = 0
    body: dict[str, Any] = {"TableName": name, "Select": "COUNT", "ConsistentRead": True}
    while True:
        answer = session.client.call("Scan", body)
        found += int(answer["Count"])
        if "LastEvaluatedKey" not in answer:
            return found
        body["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
