"""The log that a node serves: in a folder, in memory, or shared with other nodes."""

import asyncio
from collections.abc import Callable

from ...log.local import LocalLog
from ...log.local.disk_process import DiskProcess
from ...log.log import Log
from ...log.memory_log import MemoryLog
from ...materializer.os_process import helper_environment
from ...model.errors import FoldbError
from ..settings import Settings


class PartitionsRefusedError(FoldbError):
    """The log has another number of partitions than the settings."""


def open_log(
    settings: Settings,
    loop: asyncio.AbstractEventLoop,
    clock: Callable[[], int],
    random_bytes: Callable[[int], bytes],
    on_fatal: Callable[[BaseException], None],
) -> Log:
    """Open the log that the settings name, or create it.

    Raises:
        LogError, CorruptionError, ForeignLogError, NewerVersionError: The log cannot be opened or read.
        PartitionsRefusedError: The log has another number of partitions.
    """
    wanted = settings.partitions or 1
    partitions = 1 if wanted == 1 else wanted + 1  # one more for the catalog
    if settings.log is not None:
        return _checked(settings, _open_in_kafka(settings, partitions, loop, random_bytes))
    if settings.path is None:
        return MemoryLog(clock, log_id=random_bytes(16), limits=settings.limits, partitions=partitions)

    def deliver(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    log = LocalLog(
        settings.path,
        clock=clock,
        deliver=deliver,
        random_bytes=random_bytes,
        on_fatal=on_fatal,
        fsync=settings.fsync,
        segment_bytes=settings.segment_bytes,
        limits=settings.limits,
        partitions=partitions,
        disk_writer=DiskProcess(loop.add_reader, loop.remove_reader, helper_environment()),
    )
    return _checked(settings, log)


def _open_in_kafka(
    settings: Settings,
    partitions: int,
    loop: asyncio.AbstractEventLoop,
    random_bytes: Callable[[int], bytes],
) -> Log:
    # Importing Kafka's client takes an eighth of a second, and most databases do not use it.
    from ...log.kafka import KafkaLog, Security

    assert settings.log is not None

    def deliver(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    return KafkaLog(
        settings.log,
        deliver=deliver,
        random_bytes=random_bytes,
        security=Security.read(settings.kafka_settings, settings.kafka_variables),
        partitions=partitions,
        limits=settings.limits,
        identity_folder=settings.path,
        allow_unsafe=settings.allow_unsafe_kafka,
    )


def _checked(settings: Settings, log: Log) -> Log:
    try:
        _check_partitions(settings, log)
    except BaseException:
        log.close()
        raise
    return log


def _check_partitions(settings: Settings, log: Log) -> None:
    """Refuse another number of partitions than the log was created with: it determines the partition of every key."""
    count = log.genesis(0).partitions
    has = 1 if count == 1 else count - 1
    if settings.partitions not in (None, has):
        raise PartitionsRefusedError(
            f"the log has {has} partition{'' if has == 1 else 's'}, not {settings.partitions}: that was settled when "
            "it was made. Leave --partitions out, or name another folder for a new database."
        )
