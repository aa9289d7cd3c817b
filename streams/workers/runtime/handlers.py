"""Calls `lambda_handler(event, context)` as AWS Lambda does."""

import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import field
from typing import Any

from ....model.lazy_dataclass import dataclass
from ..frames import WorkerMessage
from . import telemetry
from .modules import Modules


@dataclass(slots=True)
class CognitoIdentity:
    """An empty identity: a stream has no user."""

    cognito_identity_id: str | None = None
    cognito_identity_pool_id: str | None = None


@dataclass(slots=True)
class LambdaContext:
    """The attributes and methods of Lambda's context object."""

    function_name: str
    invoked_function_arn: str
    memory_limit_in_mb: str
    log_group_name: str
    log_stream_name: str
    aws_request_id: str
    ends: float
    function_version: str = "$LATEST"
    identity: CognitoIdentity = field(default_factory=CognitoIdentity)
    client_context: None = None

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.ends - time.monotonic()) * 1000))


def load(
    modules: Modules, message: WorkerMessage
) -> tuple[Callable[[WorkerMessage, bytes], WorkerMessage], bool]:
    """Import the handler `module:function`. Return the function that calls it, and False: it takes batches."""
    handler = modules.find(message["function"])
    if not callable(handler):
        raise TypeError(f"{message['name']} is not a function")

    def call(message: WorkerMessage, body: bytes) -> WorkerMessage:
        event = json.loads(body)
        with telemetry.continuing(message.get("trace")):
            answer = handler(event, _context(message["timeout_s"]))
        return {"answer": _marshalled(answer)}

    return call, False


def _context(timeout_s: float) -> LambdaContext:
    return LambdaContext(
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        invoked_function_arn=os.environ["FOLDB_FUNCTION_ARN"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        log_stream_name=os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
        aws_request_id=str(uuid.uuid4()),
        ends=time.monotonic() + timeout_s,
    )


def _marshalled(answer: Any) -> Any:
    """Return the answer as JSON has it, which is the form that Lambda returns."""
    try:
        return json.loads(json.dumps(answer))
    except (TypeError, ValueError) as error:
        raise RuntimeError(f"Unable to marshal response: {error}") from None
