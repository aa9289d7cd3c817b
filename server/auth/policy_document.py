"""Policy documents: parsed and checked when they are stored, evaluated with each request.

    text ──► parse ──► Policy: Statement*        effect, principals, actions, resources, conditions
                       canonical text             the form in which GetResourcePolicy returns a document

A key has a document for its identity (`foldb key create --policy`), a table or a stream one for the resource. An
element that foldb does not know is refused, so every element of a stored document has its effect.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from ...model.service import OPERATIONS
from .conditions import Condition, ConditionError, Facts, parse_conditions
from .policy_text import ACCOUNT, TEXT_MAX, PolicyText, policy_text, user_arn

POLICY_BYTES: Final = 20_480
"""DynamoDB's limit of a document, with its white space."""

UNBOUNDED: Final = (
    "Resource-based policy grants unbounded access in one or more elements. "
    "Please revise the policy to ensure least-privilege form of access"
)

INVALID_PRINCIPAL: Final = "Invalid principal in policy document."

_POLICIES_MAX: Final = 256  # parsed documents in the cache
_OLD, _NEW = "2008-10-17", "2012-10-17"
_MEMBERS: Final = frozenset(("Version", "Id", "Statement"))
_ORDER: Final = (
    "Sid",
    "Effect",
    "Principal",
    "Action",
    "NotAction",
    "Resource",
    "NotResource",
    "Condition",
)
"""The elements of a statement, in DynamoDB's canonical order."""

# Actions of IAM that are no operations, or not those of DynamoDB's API.
_ITEM_ACTIONS: Final = (
    "ConditionCheckItem",
    "PartiQLDelete",
    "PartiQLInsert",
    "PartiQLSelect",
    "PartiQLUpdate",
)
_POLICY_ACTIONS: Final = ("DeleteResourcePolicy", "GetResourcePolicy", "PutResourcePolicy")

_TABLE_ACTIONS: Final = (
    *_ITEM_ACTIONS,
    *_POLICY_ACTIONS,
    "BatchGetItem",
    "BatchWriteItem",
    "CreateBackup",
    "DeleteItem",
    "DeleteTable",
    "DescribeContinuousBackups",
    "DescribeContributorInsights",
    "DescribeKinesisStreamingDestination",
    "DescribeTable",
    "DescribeTableReplicaAutoScaling",
    "DescribeTimeToLive",
    "DisableKinesisStreamingDestination",
    "EnableKinesisStreamingDestination",
    "ExportTableToPointInTime",
    "GetItem",
    "ListTagsOfResource",
    "PutItem",
    "Query",
    "RestoreTableToPointInTime",
    "Scan",
    "TagResource",
    "TransactGetItems",
    "TransactWriteItems",
    "UntagResource",
    "UpdateContinuousBackups",
    "UpdateContributorInsights",
    "UpdateItem",
    "UpdateKinesisStreamingDestination",
    "UpdateTable",
    "UpdateTableReplicaAutoScaling",
    "UpdateTimeToLive",
)
_STREAM_ACTIONS: Final = (*_POLICY_ACTIONS, "DescribeStream", "GetRecords", "GetShardIterator")

_is_resource = re.compile(r"arn:[^:]*:[^:]*:[^:]*:[^:]*:.+", re.DOTALL).fullmatch
_is_account = re.compile(r"[0-9]{12}").fullmatch
_is_principal = re.compile(
    r"arn:aws:(?:iam|sts)::[0-9]{12}:(?:root|[a-z-]+/[\w+=,.@/-]+)", re.ASCII
).fullmatch
_is_foldb_action = re.compile(r"foldb:[A-Za-z*?]+").fullmatch


class PolicyError(FoldbError):
    """A document is malformed, or has an element that foldb does not support."""


class Holder(Enum):
    """The holder of a document, which decides the elements that it may have."""

    KEY = "key"
    TABLE = "table"
    STREAM = "stream"


_ACTIONS: Final = {
    Holder.KEY: tuple(f"dynamodb:{name}" for name in sorted({*OPERATIONS, *_ITEM_ACTIONS})),
    Holder.TABLE: tuple(f"dynamodb:{name}" for name in _TABLE_ACTIONS),
    Holder.STREAM: tuple(f"dynamodb:{name}" for name in _STREAM_ACTIONS),
}


@dataclass(frozen=True, slots=True)
class Access:
    """One action of a key on one resource.

    Attributes:
        action: An IAM action.
        resource: The ARN of the table, index, stream or backup.
        key_id: The id of the key.
        facts: Returns the facts of the request. They are computed when a condition first needs them.
    """

    action: str
    resource: str
    key_id: str
    facts: Callable[[], Facts]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a document.

    Attributes:
        is_deny: Whether its effect is Deny.
        principals: The ARNs that it names, or `*`; None in the document of a key.
        actions: Patterns of actions; with `but_actions` those that it leaves out.
        resources: Patterns of ARNs; with `but_resources` those that it leaves out.
        conditions: Conditions that must hold.
    """

    is_deny: bool
    principals: tuple[str, ...] | None
    actions: tuple[PolicyText, ...]
    but_actions: bool
    resources: tuple[PolicyText, ...]
    but_resources: bool
    conditions: tuple[Condition, ...]

    def applies_to(self, access: Access) -> bool:
        """Return whether the statement is about this access."""
        action, key_id = access.action.lower(), access.key_id
        return (
            any(text.is_like(action, key_id) for text in self.actions) != self.but_actions
            and any(_names(text, access.resource, key_id) for text in self.resources) != self.but_resources
            and self._names_caller(key_id)
            and all(condition.holds(access.facts(), key_id) for condition in self.conditions)
        )

    def _names_caller(self, key_id: str) -> bool:
        """Return whether the statement names the key.

        The account as a principal denies all its keys. It allows none by itself: their own documents do.
        """
        if self.principals is None or "*" in self.principals or user_arn(key_id) in self.principals:
            return True
        return self.is_deny and f"arn:aws:iam::{ACCOUNT}:root" in self.principals


def _names(text: PolicyText, resource: str, key_id: str) -> bool:
    return text.text == "*" or text.is_like(resource, key_id, is_arn=True)


@dataclass(frozen=True, slots=True)
class Policy:
    """A parsed document, and its canonical text."""

    statements: tuple[Statement, ...]
    text: str

    def denies(self, access: Access) -> bool:
        """Return whether a statement denies the access explicitly."""
        return any(each.is_deny and each.applies_to(access) for each in self.statements)

    def allows(self, access: Access) -> bool:
        """Return whether a statement allows the access."""
        return any(not each.is_deny and each.applies_to(access) for each in self.statements)


@lru_cache(maxsize=_POLICIES_MAX)
def stored_policy(text: str, holder: Holder) -> Policy:
    """Return a document that was checked when it was stored."""
    return parse_policy(text, holder)


def parse_policy(text: str, holder: Holder) -> Policy:
    """Check a document.

    Raises:
        PolicyError: The document is malformed, or has an element that foldb does not support.
    """
    try:
        document = json.loads(text, object_pairs_hook=_object)
        json.dumps(document, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        raise PolicyError("This policy contains invalid Json") from None
    if not isinstance(document, dict):
        raise PolicyError("Syntax error at position (1,1)")
    _check_members(document, _MEMBERS)
    version = document.get("Version", _OLD)
    if version not in (_OLD, _NEW):
        raise PolicyError(f"The policy must contain a valid version string: {_NEW} or {_OLD}")
    if not isinstance(document.get("Id", ""), str):
        raise PolicyError("Id is not a text")
    if "Statement" not in document:
        raise PolicyError("Missing required field Statement")
    given = document["Statement"]
    elements = [given] if isinstance(given, dict) else given
    if not isinstance(elements, list) or not all(isinstance(each, dict) for each in elements):
        raise PolicyError("Statement is not an object or a list of objects")
    if not elements:
        raise PolicyError("Could not parse the policy: Statement is empty!")
    canonical = [_canonical(each, holder) for each in elements]
    ids = [each["Sid"] for each in canonical if "Sid" in each]
    if len(set(ids)) < len(ids):
        raise PolicyError("The Statement Ids in the policy are not unique")
    statements = tuple(_statement(each, version, holder) for each in canonical)
    head = {"Version": version} | ({"Id": document["Id"]} if "Id" in document else {})
    written = json.dumps(head | {"Statement": canonical}, separators=(",", ":"), ensure_ascii=False)
    return Policy(statements, written)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a document. A member that is given twice would have an effect only once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _check_members(element: dict[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(element.keys() - known):
        raise PolicyError(f"foldb does not support the element {unknown[0]}")


def _canonical(statement: dict[str, Any], holder: Holder) -> dict[str, Any]:
    """Return a statement in DynamoDB's canonical form: members in order, a list of one text as the text.

    Raises:
        PolicyError: An element is missing, malformed or not allowed.
    """
    _check_members(statement, frozenset(_ORDER))
    written: dict[str, Any] = {}
    for name in _ORDER:
        if name not in statement:
            continue
        value = statement[name]
        match name:
            case "Sid":
                if not isinstance(value, str):
                    raise PolicyError("Sid is not a text")
            case "Effect":
                value = str(value).capitalize()
                if value not in ("Allow", "Deny"):
                    raise PolicyError(f"Invalid effect: {statement[name]}")
            case "Principal":
                value = _principal(value)
            case "Condition":
                value = _without_lists(value)
            case _:
                value = _without_list(_texts(name, value))
        written[name] = value
    _check_elements(written, holder)
    return written


def _check_elements(statement: dict[str, Any], holder: Holder) -> None:
    if "Effect" not in statement:
        raise PolicyError("Missing required field Effect")
    if holder is Holder.KEY and "Principal" in statement:
        raise PolicyError("Policy document should not specify a principal.")
    if holder is not Holder.KEY and "Principal" not in statement:
        raise PolicyError("Missing required field Principal")
    for name in ("Action", "Resource"):
        if name not in statement and f"Not{name}" not in statement:
            raise PolicyError(f"Missing required field {name}")
        if name in statement and f"Not{name}" in statement:
            raise PolicyError(f"A statement cannot have both {name} and Not{name}")


def _texts(name: str, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(map(_is_text, texts)):
        raise PolicyError(f"{name} is not a text or a list of texts of 1 to {TEXT_MAX} characters")
    return texts


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= TEXT_MAX


def _without_list(texts: Sequence[Any]) -> Any:
    return texts[0] if len(texts) == 1 else list(texts)


def _without_lists(block: Any) -> Any:
    """Return a Condition whose lists of one value are the value. Its form is checked with its content."""
    if not isinstance(block, dict):
        return block
    return {
        operator: {
            key: _without_list(values) if isinstance(values, list) else values
            for key, values in tests.items()
        }
        if isinstance(tests, dict)
        else tests
        for operator, tests in block.items()
    }


def _principal(value: Any) -> Any:
    if value == "*":
        return "*"
    if not isinstance(value, dict):
        raise PolicyError("Principal is neither * nor an object with the member AWS")
    _check_members(value, frozenset(("AWS",)))
    if "AWS" not in value:
        raise PolicyError("Principal has no member AWS")
    names = _texts("Principal", value["AWS"])
    arns = [f"arn:aws:iam::{name}:root" if _is_account(name) else name for name in names]
    return {"AWS": _without_list(list(dict.fromkeys(arns)))}


def _statement(written: dict[str, Any], version: str, holder: Holder) -> Statement:
    try:
        conditions = parse_conditions(written["Condition"], version) if "Condition" in written else ()
    except ConditionError as error:
        raise PolicyError(str(error)) from None
    but_actions, but_resources = "NotAction" in written, "NotResource" in written
    actions = _texts("Action", written["NotAction" if but_actions else "Action"])
    resources = _texts("Resource", written["NotResource" if but_resources else "Resource"])
    _check_actions(actions, holder)
    return Statement(
        written["Effect"] == "Deny",
        _principals_of(written, conditions),
        tuple(PolicyText(action.lower(), False) for action in actions),
        but_actions,
        tuple(_resources(resources, version, holder)),
        but_resources,
        conditions,
    )


def _check_actions(actions: Sequence[str], holder: Holder) -> None:
    known = _ACTIONS[holder]
    invalid = [
        action
        for action in actions
        if not any(PolicyText(action.lower(), False).is_like(each.lower(), "") for each in known)
        and not (holder is Holder.KEY and _is_foldb_action(action))
    ]
    if invalid:
        quoted = ", ".join(f'"{action}"' for action in invalid)
        raise PolicyError(f"The following action names are invalid: {quoted}")


def _resources(resources: Sequence[str], version: str, holder: Holder) -> Iterator[PolicyText]:
    for resource in resources:
        text = policy_text(resource, version)
        if resource != "*" and not _is_resource(resource):
            raise PolicyError(f"Resource {resource} must be in ARN format or *")
        if (unknown := text.unknown_variable()) is not None:
            raise PolicyError(f"foldb does not have the policy variable ${{{unknown}}}")
        relative = resource.split(":", 5)[-1]
        is_stream = "/stream/" in relative
        if resource != "*" and holder is not Holder.KEY and is_stream != (holder is Holder.STREAM):
            raise PolicyError(f'The relative-id "{relative}" is invalid for ARN "{resource}"')
        yield text


def _principals_of(written: dict[str, Any], conditions: Sequence[Condition]) -> tuple[str, ...] | None:
    if "Principal" not in written:
        return None
    principal = written["Principal"]
    names = ["*"] if principal == "*" else _texts("Principal", principal["AWS"])
    if any(name != "*" and not _is_principal(name) for name in names):
        raise PolicyError(INVALID_PRINCIPAL)
    is_bounded = any(condition.fixes_the_caller() for condition in conditions)
    if "*" in names and written["Effect"] == "Allow" and not is_bounded:
        raise PolicyError(UNBOUNDED)
    return tuple(names)
