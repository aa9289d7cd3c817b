"""A served process whose keys have policies, and the documents of AWS's guides with the names of foldb."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from foldb.server.auth.keyfile import Key, changed
from foldb.server.auth.rights import Rights
from tests.behaviour.auth.signed import SECRET
from tests.support.served import served

ACCOUNT = "arn:aws:dynamodb:us-east-1:000000000000:"
TABLE = f"{ACCOUNT}table/"


def statement(effect: str, action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def user(key_id: str) -> dict[str, str]:
    """The principal of a key."""
    return {"AWS": f"arn:aws:iam::000000000000:user/{key_id}"}


class Clients:
    """A client for each key of a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: dict[str, Any] = {}

    def __getitem__(self, key_id: str) -> Any:
        if key_id not in self._clients:
            self._clients[key_id] = boto3.client(
                "dynamodb",
                endpoint_url=self.url,
                region_name="us-east-1",
                aws_access_key_id=key_id,
                aws_secret_access_key=SECRET,
                config=Config(retries={"total_max_attempts": 1}),
            )
        return self._clients[key_id]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def refusal(self, key_id: str, operation: str, request: Mapping[str, Any]) -> str:
        """Send a request; return the text of its AccessDeniedException, or an empty text if it succeeds."""
        try:
            getattr(self[key_id], operation)(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDeniedException":
                raise
            return str(error.response["Error"]["Message"])
        return ""


@contextmanager
def serving(folder: Path, rights: Mapping[str, Rights]) -> Iterator[Clients]:
    """Serve a database to keys with these ids, and to the key `admin`."""
    keys = folder / "keys.toml"
    with changed(keys) as by_id:
        for key_id, each in {"admin": Rights(admin=["*"]), **rights}.items():
            by_id[key_id] = Key(key_id, SECRET, datetime.now(UTC), rights=each)
    with served(folder / "data", "--keys", str(keys)) as url:
        clients = Clients(url)
        yield clients
        clients.close()
