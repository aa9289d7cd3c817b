"""A sink that calls an HTTP endpoint with CloudEvents 1.0, signed as Standard Webhooks says.

    {"Kind": "webhook", "Url": "https://example.com/orders", "Mode": "structured", "Secrets": ["whsec_..."]}

    structured   a request a change, the event as JSON
    binary       a request a change, the plain format, the event's attributes in headers
    batch        a request for many changes, in parts of at most MaximumBodyBytes

2xx is done, 410 ends the subscription, and everything else is a failure: tried again by the dispatcher's rules, and not
before what a Retry-After says. Requests of a batch go out one after the other, so what failed is known to the change.
What stands behind `webhook-id` is the same at every attempt, by which a receiver knows what it has had already.
"""

import asyncio
import base64
import binascii
import hmac
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from ...model.errors import ValidationError
from ..formats import cloudevents
from ..formats.plain import plain
from ..formats.table_view import Delivery, event_id
from .http.exchange import Answer, CallError, Exchange, Resolve
from .http.targets import Network, Target, address_in, may_be_called, networks_of, not_public, target_of
from .sink import Batch, DeliveryResult, Failure, PartialFailure, Sink, SinkContext, Success, Unsubscribed
from .sink_settings import Members, site_of, version_of

MODES: Final = ("structured", "binary", "batch")
BODY_BYTES: Final = 1 << 20
MARK: Final = "whsec_"

_HEADER_NAME: Final = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile("[\t -~]{0,4096}")
# What the exchange, the format or the signature says.
_OURS: Final = re.compile(
    "host|connection|content-length|content-type|transfer-encoding|upgrade|te|trailer|expect|keep-alive|ce-.*|webhook-.*",
    re.IGNORECASE,
)
_TOLD: Final = 200
_LONGEST_S: Final = 3600.0


class Settings(NamedTuple):
    """What a webhook's Sink says."""

    target: Target
    mode: str
    secrets: tuple[bytes, ...]
    headers: dict[str, str]
    body_bytes: int


def check(settings: dict[str, Any]) -> None:
    """Refuse what cannot be called."""
    _read(settings)


def make(settings: dict[str, Any], surroundings: SinkContext) -> Sink:
    """A webhook with this machine's resolver and certificates.

    Raises:
        ValidationError: The URL has an address that may not be called from here.
    """
    target = target_of(settings["Url"])
    address = address_in(target)  # a name is looked at when it is resolved
    if address is not None and not may_be_called(address, networks_of(surroundings.webhooks)):
        raise ValidationError(f"Sink.Url: {not_public(target.host, [target.host])}")
    return Webhook(settings, surroundings, _resolver(surroundings.loop))


class Webhook:
    """The sink; see the module."""

    def __init__(
        self,
        settings: dict[str, Any],
        surroundings: SinkContext,
        resolve: Resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.version = version_of(settings)
        self._settings = _read(settings)
        self._allowed: tuple[Network, ...] = networks_of(surroundings.webhooks)
        self._clock = surroundings.clock
        self._timeout_s = surroundings.timeout_s
        self._resolve = resolve
        self._tls = tls

    @property
    def is_single(self) -> bool:
        """Whether each change is a request of its own."""
        return self._settings.mode != "batch"

    async def start(self) -> None:
        """Read this machine's certificates, which takes long; a host that is down now may be up when it is called."""
        if self._settings.target.is_tls and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)

    async def close(self) -> None:
        """There is nothing to let go of: a connection lives as long as a batch."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Send the requests of the batch until one fails."""
        exchange = Exchange(self._settings.target, self._allowed, self._resolve, self._tls)
        try:
            for request in _requests(batch, self._settings):
                verdict = await self._call(exchange, request)
                if isinstance(verdict, Failure):
                    return _blamed(verdict, request, batch)
                if isinstance(verdict, Unsubscribed):
                    return verdict
        finally:
            exchange.close()
        return Success()

    async def _call(self, exchange: Exchange, request: "_Request") -> Success | Failure | Unsubscribed:
        now_ms = self._clock()
        headers = {
            **self._settings.headers,
            **request.headers,
            **signature(request.id, now_ms // 1000, request.body, self._settings.secrets),
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await exchange.post(headers, request.body)
        except TimeoutError:
            return Failure(f"{self._settings.target.authority} did not answer within {self._timeout_s:g} s")
        except CallError as error:
            return Failure(str(error))
        return _verdict(answer, now_ms, self._settings.target)


class _Request(NamedTuple):
    changes: Sequence[Delivery]
    id: str
    headers: dict[str, str]
    body: bytes


def _blamed(failed: Failure, request: _Request, batch: Batch) -> Failure | PartialFailure:
    """Which change failed: nobody knows where the request had several, and what went before comes again."""
    if len(request.changes) > 1 or len(batch.changes) == 1:
        return failed
    blamed = request.changes[0]
    number = blamed.change.sequence_number
    return PartialFailure(blamed.partition, number, failed.error, retry_after_s=failed.retry_after_s)


def _read(settings: dict[str, Any]) -> Settings:
    members = Members(settings, "webhook")
    read = Settings(
        target_of(members.text("Url")),
        members.choice("Mode", MODES, MODES[0]),
        tuple(_secret(text) for text in members.texts("Secrets")),
        _headers(members.pairs("Headers")),
        members.integer("MaximumBodyBytes", 1, 64 << 20, BODY_BYTES),
    )
    members.end()
    return read


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(MARK), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(MARK) or not 24 <= len(secret) <= 64:
        raise ValidationError(f"Sink.Secrets must be {MARK} and 24 to 64 bytes in base64")
    return secret


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _OURS.fullmatch(name):
            raise ValidationError(f"Sink.Headers must not have {name!r}")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValidationError(f"Sink.Headers must have printable ASCII for {name}")
    return {"user-agent": "foldb", **{name.lower(): value for name, value in headers.items()}}


def _requests(batch: Batch, settings: Settings) -> Iterator[_Request]:
    if settings.mode == "batch":
        yield from _parts(batch, settings.body_bytes)
        return
    for delivery in batch.changes:
        if settings.mode == "binary":
            headers, body = cloudevents.headers(delivery), plain(delivery, replay=batch.replay)
        else:
            headers = {"content-type": cloudevents.STRUCTURED}
            body = cloudevents.structured(delivery, replay=batch.replay)
        yield _Request([delivery], event_id(delivery), headers, body)


def _parts(batch: Batch, most: int) -> Iterator[_Request]:
    """The batch in requests of at most so many bytes; a change that is larger goes alone."""
    changes: list[Delivery] = []
    events: list[bytes] = []
    size = 0
    for delivery in batch.changes:
        event = cloudevents.structured(delivery, replay=batch.replay)
        if events and size + len(event) + 2 > most:
            yield _part(changes, events)
            changes, events, size = [], [], 0
        changes.append(delivery)
        events.append(event)
        size += len(event) + 1
    if events:
        yield _part(changes, events)


def _part(changes: Sequence[Delivery], events: Sequence[bytes]) -> _Request:
    # The same changes have the same name; divided otherwise, they are another message.
    name = f"{event_id(changes[0])}-{event_id(changes[-1])}"
    return _Request(changes, name, {"content-type": cloudevents.BATCH}, b"[%b]" % b",".join(events))


def signature(id_: str, now: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The headers by which a receiver knows that it is us, and not somebody who repeats what we said long ago."""
    about = {"webhook-id": id_, "webhook-timestamp": str(now)}
    if secrets:
        signed = b"%b.%d.%b" % (id_.encode(), now, body)
        about["webhook-signature"] = " ".join(
            "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets
        )
    return about


def _verdict(answer: Answer, now_ms: int, target: Target) -> Success | Failure | Unsubscribed:
    if 200 <= answer.status < 300:
        return Success()
    if answer.status == 410:
        return Unsubscribed("the webhook answered 410: it wants no more")
    said = _without_path(answer.body.decode(errors="replace"), target)[:_TOLD].strip()
    error = f"the webhook answered {answer.status}"
    if 300 <= answer.status < 400:
        error += (
            f" and points to {site_of(answer.headers.get('location', '?'))[:_TOLD]!r}, which is not followed"
        )
    elif said:
        error += f": {said}"
    return Failure(error, retry_after_s=retry_after(answer.headers.get("retry-after"), now_ms))


def _without_path(text: str, target: Target) -> str:
    """A text of a receiver without the path and query that were called, which may hold a token: errors have readers."""
    path, _, query = target.path.partition("?")
    for part in (target.path, path, query):
        if len(part) > 1:
            text = text.replace(part, "...")
    return text


def retry_after(text: str | None, now_ms: int) -> float | None:
    """The seconds that a Retry-After asks for; it may be a number of them or a date. What is neither asks for nothing,
    and nobody makes us wait for more than an hour.

    >>> retry_after("Tue, 14 Nov 2023 22:13:50 GMT", 1_700_000_000_000)
    30.0
    """
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,9}", text):
        return min(float(text), _LONGEST_S)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now_ms / 1000
    return min(max(seconds, 0.0), _LONGEST_S)


def _resolver(loop: asyncio.AbstractEventLoop) -> Callable[[str, int], Any]:
    async def resolve(host: str, port: int) -> list[str]:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]

    return resolve
