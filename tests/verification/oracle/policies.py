"""A second evaluator of policies, written from IAM's user guide: documents as they are written, and no shared code.

Wildcards are matched character by character, and conditions are looked up in the document with each request.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ACCOUNT = "000000000000"
STAR = "\ue000"  # a * that is a character


@dataclass(frozen=True)
class Asked:
    """An action of a key on a resource, and the values of condition keys."""

    key_id: str
    action: str
    resource: str
    facts: Mapping[str, tuple[str, ...]]


def decide(asked: Asked, identity: str | None, resource: str | None, granted: bool) -> str:
    """Return "deny", "allow" or "none" for the policies of a key and of a table, and for the key's patterns."""
    found = {
        effect
        for kind, text in (("key", identity), ("table", resource))
        if text is not None
        for effect in effects(text, kind, asked)
    }
    if "Deny" in found:
        return "deny"
    return "allow" if granted or "Allow" in found else "none"


def effects(text: str, kind: str, asked: Asked) -> Iterable[str]:
    """Yield the effects of the statements that are about an access."""
    document = json.loads(text)
    version = document.get("Version", "2008-10-17")
    statements = document["Statement"]
    for each in statements if isinstance(statements, list) else [statements]:
        if _is_about(each, version, kind, asked):
            yield each["Effect"]


def _is_about(statement: Mapping[str, Any], version: str, kind: str, asked: Asked) -> bool:
    variables = _variables(asked.key_id) if version == "2012-10-17" else {}
    if "Action" in statement:
        if not any(_glob(each.lower(), asked.action.lower()) for each in _list(statement["Action"])):
            return False
    elif any(_glob(each.lower(), asked.action.lower()) for each in _list(statement["NotAction"])):
        return False
    if "Resource" in statement:
        if not any(_arn(_filled(each, variables), asked.resource) for each in _list(statement["Resource"])):
            return False
    elif any(_arn(_filled(each, variables), asked.resource) for each in _list(statement["NotResource"])):
        return False
    if kind == "table" and not _is_principal(statement, asked.key_id):
        return False
    own = {name: (value,) for name, value in _variables(asked.key_id).items() if name != "*"}
    facts = {**own, **asked.facts}
    return all(
        _holds(operator, _list(values), facts.get(key.lower(), ()), variables)
        for operator, tests in statement.get("Condition", {}).items()
        for key, values in tests.items()
    )


def _is_principal(statement: Mapping[str, Any], key_id: str) -> bool:
    principal = statement["Principal"]
    names = ["*"] if principal == "*" else _list(principal["AWS"])
    account = (ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root")
    if any(name in account for name in names) and statement["Effect"] == "Deny":
        return True
    return "*" in names or f"arn:aws:iam::{ACCOUNT}:user/{key_id}" in names


def _holds(name: str, wanted: list[str], values: tuple[str, ...], variables: Mapping[str, str]) -> bool:
    quantifier, _, operator = name.rpartition(":")
    if operator == "Null":
        return ("true" if not values else "false") in wanted
    may_be_absent = operator.endswith("IfExists")
    operator = operator.removesuffix("IfExists")
    is_negated = "Not" in operator
    plain = operator.replace("Not", "")

    def passes(value: str) -> bool:
        for text in wanted:
            filled = _filled(text, variables)
            if plain == "StringEquals":
                is_same = filled.replace(STAR, "*") == value
            elif plain == "StringEqualsIgnoreCase" or plain == "Bool":
                is_same = filled.replace(STAR, "*").lower() == value.lower()
            elif plain == "StringLike":
                is_same = _glob(filled, value)
            else:
                is_same = _arn(filled, value)
            if is_same:
                return not is_negated
        return is_negated

    if not values:
        if quantifier == "ForAllValues" or may_be_absent:
            return True
        return not quantifier and is_negated
    results = [passes(value) for value in values]
    return True in results if quantifier == "ForAnyValue" else False not in results


def _variables(key_id: str) -> dict[str, str]:
    return {
        "aws:username": key_id,
        "aws:userid": key_id,
        "aws:principalarn": f"arn:aws:iam::{ACCOUNT}:user/{key_id}",
        "aws:principalaccount": ACCOUNT,
        "*": STAR,
    }


def _filled(text: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _arn(pattern: str, value: str) -> bool:
    if pattern == "*":
        return True
    wanted, given = pattern.split(":", 5), value.split(":", 5)
    return len(wanted) == len(given) and all(map(_glob, wanted, given))


def _glob(pattern: str, text: str) -> bool:
    """Match by the ends that each prefix of the pattern reaches in the text."""
    reached = {0}
    for character in pattern:
        if character == "*":
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        else:
            wanted = "*" if character == STAR else character
            reached = {
                end + 1 for end in reached if end < len(text) and (text[end] == wanted or character == "?")
            }
    return len(text) in reached
