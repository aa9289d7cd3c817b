"""Requests signed by botocore, so that the tests do not share code with the verifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from foldb.server.auth.keyfile import Key, Keys
from foldb.server.auth.rights import Rights
from foldb.server.http.request_head import RequestHead, read_head

ID, SECRET = "FOLDBABCDEFGHIJKLMNO", "a secret of thirty or more characters"
CREATED = datetime(2026, 11, 21, tzinfo=UTC)
KEY = Key(ID, SECRET, CREATED, rights=Rights(admin=["*"]))
KEYS = Keys({ID: KEY})
HOST = "localhost:8000"
BODY = b'{"TableName":"Cars","Key":{"pk":{"S":"car"}}}'


@dataclass(frozen=True)
class Request:
    """One request, and when it was signed."""

    fields: Mapping[str, str]
    body: bytes
    time_ms: int

    @property
    def head(self) -> RequestHead:
        return read_head(self.head_bytes())

    def head_bytes(self, *more: str) -> bytes:
        lines = [f"{name}: {value}" for name, value in self.fields.items()]
        return "\r\n".join(("POST / HTTP/1.1", *lines, *more, "", "")).encode("latin-1")

    def data(self) -> bytes:
        """As it is sent."""
        return self.head_bytes(f"Content-Length: {len(self.body)}") + self.body

    def with_fields(self, **fields: str | None) -> "Request":
        """The same, with other fields behind its signature; one that is None is left out."""
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        kept = {name: value for name, value in self.fields.items() if name.lower() not in named}
        return Request(
            kept | {name: value for name, value in named.items() if value is not None},
            self.body,
            self.time_ms,
        )


def signed(
    body: bytes = BODY,
    *,
    key_id: str = ID,
    secret: str = SECRET,
    token: str | None = None,
    region: str = "us-east-1",
    service: str = "dynamodb",
    fields: Mapping[str, str] | None = None,
    operation: str = "GetItem",
) -> Request:
    """A request signed now, which is the time that it says."""
    usual = {
        "Host": HOST,
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "User-Agent": "Boto3/1.44.5",
        "Accept-Encoding": "identity",
        "amz-sdk-invocation-id": "00000000-0000-4000-8000-000000000000",
    }
    request = AWSRequest("POST", f"http://{HOST}/", headers=usual | dict(fields or {}), data=body)
    SigV4Auth(Credentials(key_id, secret, token), service, region).add_auth(request)
    return Request(dict(request.headers.items()), body, _time_ms(request.headers))


def _time_ms(fields: Mapping[str, str]) -> int:
    if "X-Amz-Date" in fields:
        at = datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    else:
        at = parsedate_to_datetime(fields["Date"])
    return int(at.timestamp()) * 1000
