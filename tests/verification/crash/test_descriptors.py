"""Many connections leave a descriptor for the log's next file."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.served import Process
from tests.support.write_ledger import Ledger, Writers, create
from tests.verification.crash.programs import with_limit


def test_idle_connections_leave_the_log_its_files(tmp_path: Path) -> None:
    ledger = Ledger()
    program = with_limit(resource.RLIMIT_NOFILE, 64)
    with Process(tmp_path, "--segment-bytes", "10000", program=program) as server, ExitStack() as idle:
        create(server.url)
        address = urlsplit(server.url)
        with Writers(ledger, server.url, writers=2) as writers:
            writers.wait_for(10)
            before = len(list(tmp_path.glob("*.avro")))
            for _ in range(100):
                idle.enter_context(socket.create_connection((address.hostname or "", address.port or 0)))
            writers.wait_for(100)
        assert len(list(tmp_path.glob("*.avro"))) > before
        ledger.check(server.url)
