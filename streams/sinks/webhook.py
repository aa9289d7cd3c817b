"""A sink that calls an HTTP endpoint with CloudEvents 1.0, signed as Standard Webhooks defines.

    {"Kind": "webhook", "Url": "https://example.com/orders", "Mode": "structured", "Secrets": ["whsec_..."]}

    structured   one request per change, the event as JSON
    binary       one request per change, the plain format, the event's attributes in headers
    batch        one request for many changes, in parts of at most MaximumBodyBytes

2xx is a success, 410 stops the subscription, every other answer is a failure: the dispatcher retries, not before the
time of a Retry-After. The requests of a batch are sent one after the other, so the failed change is known. All attempts
of a request have the same `webhook-id`, by which a receiver drops duplicates.
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
from ...model.subscriptions.setting_types import Int, OneOf, Text, Texts, TextsByName
from ...model.subscriptions.settings import BYTES_MAX
from ..formats import cloudevents
from ..formats.plain import plain
from ..formats.table_view import Delivery, event_id
from .http.exchange import CallError, Exchange, Resolve, Response
from .http.targets import (
    Network,
    Target,
    address_in,
    may_be_called,
    networks_of,
    not_public,
    target_of,
)
from .kind import SinkKind, SinkSetting, site_of
from .sink import (
    Batch,
    ConfiguredSink,
    DeliveryResult,
    Failure,
    PartialFailure,
    Sink,
    SinkContext,
    Success,
    Unsubscribed,
)

MODES: Final = ("structured", "binary", "batch")
BODY_BYTES: Final = 1 << 20
SIGNING_MARK: Final = "whsec_"

_HEADER_NAME: Final = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE: Final = re.compile("[\t -~]{0,4096}")
# Headers that the exchange, the format or the signature sets.
_RESERVED: Final = re.compile(
    "host|connection|content-length|content-type|transfer-encoding|upgrade|te|trailer|expect|keep-alive|ce-.*|webhook-.*",
    re.IGNORECASE,
)
_QUOTED_MAX: Final = 200
"""Characters of an answer that an error quotes."""
_RETRY_AFTER_MAX_S: Final = 3600.0


class WebhookSettings(NamedTuple):
    """The parsed members of a webhook's Sink."""

    target: Target
    mode: str
    secrets: tuple[bytes, ...]
    headers: dict[str, str]
    body_bytes: int


def make(settings: dict[str, Any], context: SinkContext) -> Sink:
    """Return a webhook that uses this machine's resolver and certificates.

    Raises:
        ValidationError: The address in the URL is private and not allowed.
    """
    target = target_of(settings["Url"])
    address = address_in(target)  # a name is checked when it is resolved
    if address is not None and not may_be_called(address, networks_of(context.webhooks)):
        raise ValidationError(f"Sink.Url: {not_public(target.host, [target.host])}")
    return Webhook(settings, context, _resolver(context.loop))


class Webhook(ConfiguredSink):
    """Sends HTTP requests."""

    def __init__(
        self,
        settings: dict[str, Any],
        context: SinkContext,
        resolve: Resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(settings)
        self._settings = _read(settings)
        self.is_single = self._settings.mode != "batch"
        self._allowed: tuple[Network, ...] = networks_of(context.webhooks)
        self._clock = context.clock
        self._timeout_s = context.timeout_s
        self._resolve = resolve
        self._tls = tls

    async def start(self) -> None:
        """Load this machine's certificates, which takes long. The host is not called."""
        if self._settings.target.is_tls and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)

    async def close(self) -> None:
        """Do nothing: a connection is closed at the end of its batch."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Send the requests of the batch, up to the first that fails."""
        exchange = Exchange(self._settings.target, self._allowed, self._resolve, self._tls)
        try:
            for request in _requests(batch, self._settings):
                result = await self._call(exchange, request)
                if isinstance(result, Failure):
                    return _attributed(result, request, batch)
                if isinstance(result, Unsubscribed):
                    return result
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
                response = await exchange.post(headers, request.body)
        except TimeoutError:
            return Failure(f"{self._settings.target.authority} did not answer within {self._timeout_s:g} s")
        except CallError as error:
            return Failure(str(error))
        return _result(response, now_ms, self._settings.target)


class _Request(NamedTuple):
    changes: Sequence[Delivery]
    id: str
    headers: dict[str, str]
    body: bytes


def _attributed(failed: Failure, request: _Request, batch: Batch) -> Failure | PartialFailure:
    """Return a failure with the change at fault, if the request had one change only."""
    if len(request.changes) > 1 or len(batch.changes) == 1:
        return failed
    change = request.changes[0]
    sequence_number = change.change.sequence_number
    return PartialFailure(change.partition, sequence_number, failed.error, retry_after_s=failed.retry_after_s)


def _read(settings: dict[str, Any]) -> WebhookSettings:
    return WebhookSettings(
        target_of(settings["Url"]),
        KIND.value(settings, "Mode"),
        tuple(_secret(text) for text in KIND.value(settings, "Secrets")),
        _headers(KIND.value(settings, "Headers")),
        KIND.value(settings, "MaximumBodyBytes"),
    )


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(SIGNING_MARK), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(SIGNING_MARK) or not 24 <= len(secret) <= 64:
        raise ValidationError(f"Sink.Secrets must be {SIGNING_MARK} and 24 to 64 bytes in base64")
    return secret


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _RESERVED.fullmatch(name):
            raise ValidationError(f"Sink.Headers must not have {name!r}")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValidationError(f"Sink.Headers must have printable ASCII for {name}")
    return {"user-agent": "foldb", **{name.lower(): value for name, value in headers.items()}}


def _requests(batch: Batch, settings: WebhookSettings) -> Iterator[_Request]:
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


def _parts(batch: Batch, limit: int) -> Iterator[_Request]:
    """Yield requests of at most `limit` bytes; a larger change has a request of its own."""
    changes: list[Delivery] = []
    events: list[bytes] = []
    size = 0
    for delivery in batch.changes:
        event = cloudevents.structured(delivery, replay=batch.replay)
        if events and size + len(event) + 2 > limit:
            yield _part(changes, events)
            changes, events, size = [], [], 0
        changes.append(delivery)
        events.append(event)
        size += len(event) + 1
    if events:
        yield _part(changes, events)


def _part(changes: Sequence[Delivery], events: Sequence[bytes]) -> _Request:
    # Equal changes have an equal name. Other parts of the same batch are other messages.
    name = f"{event_id(changes[0])}-{event_id(changes[-1])}"
    return _Request(changes, name, {"content-type": cloudevents.BATCH}, b"[%b]" % b",".join(events))


def signature(id_: str, now_s: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """Return the headers by which a receiver authenticates a request and detects a replayed one."""
    pairs = {"webhook-id": id_, "webhook-timestamp": str(now_s)}
    if secrets:
        signed = b"%b.%d.%b" % (id_.encode(), now_s, body)
        pairs["webhook-signature"] = " ".join(
            "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets
        )
    return pairs


def _result(response: Response, now_ms: int, target: Target) -> Success | Failure | Unsubscribed:
    if 200 <= response.status < 300:
        return Success()
    if response.status == 410:
        return Unsubscribed("the webhook answered 410, which ends the subscription")
    quoted = _without_path(response.body.decode(errors="replace"), target)[:_QUOTED_MAX].strip()
    error = f"the webhook answered {response.status}"
    if 300 <= response.status < 400:
        location = site_of(response.headers.get("location", "?"))[:_QUOTED_MAX]
        error += f" and points to {location!r}, which is not followed"
    elif quoted:
        error += f": {quoted}"
    return Failure(error, retry_after_s=retry_after(response.headers.get("retry-after"), now_ms))


def _without_path(text: str, target: Target) -> str:
    """Return an answer's text without the URL's path and query, which may hold a token: errors have many readers."""
    path, _, query = target.path.partition("?")
    for part in (target.path, path, query):
        if len(part) > 1:
            text = text.replace(part, "...")
    return text


def retry_after(text: str | None, now_ms: int) -> float | None:
    """Return the seconds of a Retry-After, which is a number or a date; at most an hour. None if it is neither.

    >>> retry_after("Tue, 14 Nov 2023 22:13:50 GMT", 1_700_000_000_000)
    30.0
    """
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,9}", text):
        return min(float(text), _RETRY_AFTER_MAX_S)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now_ms / 1000
    return min(max(seconds, 0.0), _RETRY_AFTER_MAX_S)


def _resolver(loop: asyncio.AbstractEventLoop) -> Callable[[str, int], Any]:
    async def resolve(host: str, port: int) -> list[str]:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in addresses]

    return resolve


KIND: Final = SinkKind(
    name="webhook",
    flag="--webhook",
    metavar="URL",
    help="HTTP endpoint that receives CloudEvents.",
    example="https://shop.example/hooks",
    flag_member="Url",
    settings=(
        SinkSetting("Url", Text(BYTES_MAX), reader_view=site_of),
        SinkSetting("Mode", OneOf(MODES), MODES[0]),
        SinkSetting("Secrets", Texts(), (), secret=True),
        SinkSetting("Headers", TextsByName(), {}, secret=True),
        SinkSetting("MaximumBodyBytes", Int(1, 64 << 20), BODY_BYTES),
    ),
    verify=_read,
    make=make,
    label=lambda sink: str(sink["Url"]),
    acts_outside=True,
    may_be_single=True,
)
