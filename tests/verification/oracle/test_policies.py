"""Decisions about requests against a second evaluator, and the decisions that each clause of a document changes."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import pytest

from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.errors import AccessDeniedError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.tables import ResourcePolicy, TableDefinition
from foldb.server.auth.keyfile import Key
from foldb.server.auth.policy_document import Holder, PolicyError, parse_policy
from foldb.server.auth.rights import ItemDemand, Right, Rights, check
from tests.behaviour.auth.signed import CREATED
from tests.verification.oracle.policies import Asked, decide

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/"
DEFINITION = TableDefinition(
    1, "Cars", "uuid", KeySchema((KeyAttribute("pk", "S"),)), {"pk": "S"}, 0, status="ACTIVE"
)
ACTIONS = ("GetItem", "PutItem", "UpdateItem", "Query", "Scan")


@dataclass(frozen=True)
class Sent:
    """A request of a key: its action on a table or an index of it, and its facts."""

    key_id: str
    action: str
    table: str
    index: str | None
    facts: Mapping[str, tuple[str, ...]]

    @property
    def asked(self) -> Asked:
        relative = self.table if self.index is None else f"{self.table}/index/{self.index}"
        return Asked(self.key_id, f"dynamodb:{self.action}", TABLE + relative, self.facts)


@cache
def bearer_of(key_id: str, identity: str | None, rights: tuple[str, ...]) -> Key:
    return Key(key_id, "a secret that is long enough", CREATED, rights=Rights(admin=rights, policy=identity))


@cache
def catalog_of(resource: str | None) -> PartitionState:
    """Two tables with this policy."""
    catalog = PartitionState()
    policies = {} if resource is None else {"": ResourcePolicy(resource, 1)}
    for number, name in enumerate(("Cars", "Logs"), 1):
        catalog.tables[number] = Table(replace(DEFINITION, id=number, name=name, policies=policies))
        catalog.names[name] = number
    return catalog


def decision(sent: Sent, identity: str | None, resource: str | None, rights: tuple[str, ...] = ()) -> str:
    """The decision of foldb: "deny", "allow" or "none"."""
    demand = ItemDemand(
        f"dynamodb:{sent.action}", Right.ADMIN, sent.table, {}, lambda *_: sent.facts, sent.index
    )
    try:
        check(bearer_of(sent.key_id, identity, rights), [demand], catalog_of(resource))
    except AccessDeniedError as error:
        return "deny" if "explicit deny" in error.message else "none"
    return "allow"


# Random documents and requests


class Dice:
    """Draws documents and requests. They have few names, so that they often meet."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def document(self, *, principals: bool) -> str:
        """A document, which may be one that foldb refuses."""
        version = self._one("2012-10-17", "2012-10-17", "2008-10-17")
        statements = [self._statement(principals) for _ in range(self._dice.randint(1, 3))]
        return json.dumps({"Version": version, "Statement": statements})

    def sent(self) -> Sent:
        facts = {
            "dynamodb:leadingkeys": self._some("a", "ab", "one", "b*"),
            "dynamodb:attributes": self._some("pk", "Wins", "Secret", "secret"),
            "dynamodb:select": self._some("SPECIFIC_ATTRIBUTES", "COUNT")[:1],
            "dynamodb:returnvalues": self._some("NONE", "ALL_OLD"),
            "dynamodb:fulltablescan": self._some("true", "false")[:1],
        }
        return Sent(
            self._one("one", "two"),
            self._one(*ACTIONS),
            self._one("Cars", "Logs"),
            self._one(None, None, "colour"),
            {name: values for name, values in facts.items() if values},
        )

    def chance(self) -> float:
        return self._dice.random()

    def _statement(self, principals: bool) -> dict[str, Any]:
        is_allow = self._dice.random() < 0.7
        statement: dict[str, Any] = {"Effect": "Allow" if is_allow else "Deny"}
        action = self._list(
            "dynamodb:*", "*", "dynamodb:Get*", "DYNAMODB:putitem", "dynamodb:?can", "dynamodb:Query"
        )
        statement[self._one("Action", "Action", "NotAction")] = action
        cars = f"{TABLE}Cars"
        resource = self._list(
            "*", cars, f"{cars}/index/*", f"{TABLE}*", f"{TABLE}*ar?", "arn:aws:*:*:*:table/L*"
        )
        statement[self._one("Resource", "Resource", "NotResource")] = resource
        if principals:
            names = ["one", "two"] if is_allow else ["one", "two", None, "*"]
            statement["Principal"] = {"AWS": self._list(*map(self._principal, names))}
        if self._dice.random() < 0.6:
            statement["Condition"] = dict(self._conditions())
        return statement

    def _principal(self, name: str | None) -> str:
        if name is None or name == "*":
            return name or "000000000000"
        return f"arn:aws:iam::000000000000:user/{name}"

    def _conditions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        texts = ["a", "a*", "${aws:username}", "b${*}", "?", "Wins", "Sec*", "secret", "one", "NONE", "COUNT"]
        for _ in range(self._dice.randint(1, 2)):
            key, is_set = self._one(
                ("dynamodb:LeadingKeys", True),
                ("dynamodb:Attributes", True),
                ("dynamodb:Select", False),
                ("dynamodb:ReturnValues", False),
                ("aws:username", False),
                ("aws:PrincipalArn", False),
            )
            quantifier = (
                self._one("ForAllValues:", "ForAnyValue:") if is_set else self._one("", "", "ForAnyValue:")
            )
            operator = self._one(
                "StringEquals",
                "StringNotEquals",
                "StringLike",
                "StringNotLike",
                "StringEqualsIgnoreCase",
                "StringNotEqualsIgnoreCase",
            )
            if key == "aws:PrincipalArn":
                operator = self._one("ArnLike", "ArnNotEquals")
                texts = ["arn:aws:iam::*:user/one", "arn:aws:*:user/two", "arn:aws:iam::000000000000:*"]
            if self._dice.random() < 0.15:
                yield "Null", {key: self._one("true", "false")}
                continue
            yield f"{quantifier}{operator}{self._one('', 'IfExists')}", {key: self._list(*texts)}

    def _one(self, *choices: Any) -> Any:
        return self._dice.choice(choices)

    def _list(self, *choices: Any) -> Any:
        found = self._dice.sample(choices, self._dice.choice((1, 1, 2)))
        return found[0] if len(found) == 1 and self._dice.random() < 0.5 else found

    def _some(self, *choices: str) -> tuple[str, ...]:
        return tuple(self._dice.sample(choices, self._dice.randint(0, 2)))


def compare(seed: int, documents: int) -> dict[str, int]:
    """Compare the decisions about random requests; return how often each was made."""
    dice, seen = Dice(seed), {"deny": 0, "allow": 0, "none": 0}
    for _ in range(documents):
        identity = dice.document(principals=False) if dice.chance() < 0.8 else None
        resource = dice.document(principals=True) if dice.chance() < 0.6 else None
        rights = ("Cars",) if dice.chance() < 0.2 else ()
        for text, holder in ((identity, Holder.KEY), (resource, Holder.TABLE)):
            if text is not None:
                parse_policy(text, holder)
        for _ in range(10):
            sent = dice.sent()
            expected = decide(sent.asked, identity, resource, sent.table in rights)
            assert expected == decision(sent, identity, resource, rights), (sent, identity, resource, rights)
            seen[expected] += 1
    return seen


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_those_of_a_second_evaluator(seed: int) -> None:
    assert min(compare(seed, 60).values()) > 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_decisions_are_those_of_a_second_evaluator(seed: int) -> None:
    assert min(compare(seed, 500).values()) > 200


# Mutations of clauses

PLAYER = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:Query"],
            "Resource": [f"{TABLE}Cars", f"{TABLE}Cars/index/colour"],
            "Condition": {
                "ForAllValues:StringEquals": {
                    "dynamodb:LeadingKeys": ["${aws:username}"],
                    "dynamodb:Attributes": ["pk", "Wins"],
                },
                "StringEqualsIfExists": {
                    "dynamodb:Select": "SPECIFIC_ATTRIBUTES",
                    "dynamodb:ReturnValues": ["NONE"],
                },
            },
        },
        {
            "Effect": "Deny",
            "Action": "dynamodb:*",
            "Resource": "*",
            "Condition": {"ForAnyValue:StringLike": {"dynamodb:Attributes": "Sec*"}},
        },
    ],
}


def grid() -> list[Sent]:
    """Every request that differs in one of these facts."""
    found = []
    resources = (("Cars", None), ("Cars", "colour"), ("Cars", "size"), ("Logs", None))
    for key_id, action, (table, index) in product(("one", "two"), ACTIONS, resources):
        reads = action in ("GetItem", "Query", "Scan")
        kinds = ("SPECIFIC_ATTRIBUTES", "ALL_ATTRIBUTES") if reads else ("NONE", "ALL_OLD")
        for leading, attributes, kind in product(
            ((), ("one",), ("one", "two")), (("pk",), ("pk", "Wins"), ("Losses",), ("pk", "Secret")), kinds
        ):
            facts = {
                "dynamodb:leadingkeys": leading,
                "dynamodb:attributes": attributes,
                "dynamodb:select" if reads else "dynamodb:returnvalues": (kind,),
            }
            found.append(Sent(key_id, action, table, index, facts))
    return found


REQUESTS = grid()


def allowed(document: Any) -> set[int]:
    text = json.dumps(document)
    return {nth for nth, sent in enumerate(REQUESTS) if decision(sent, text, None) == "allow"}


def meant(
    *,
    actions: tuple[str, ...] = ("GetItem", "UpdateItem", "Query"),
    resources: Callable[[Sent], bool] = lambda sent: sent.table == "Cars" and sent.index in (None, "colour"),
    keys: Callable[[Sent, str], bool] = lambda sent, value: value == sent.key_id,
    attributes: tuple[str, ...] = ("pk", "Wins"),
    select: Callable[[tuple[str, ...]], bool] = lambda values: values in ((), ("SPECIFIC_ATTRIBUTES",)),
    returns: Callable[[tuple[str, ...]], bool] = lambda values: values in ((), ("NONE",)),
    hidden: Callable[[str], bool] = lambda name: name.startswith("Sec"),
) -> set[int]:
    """The requests that PLAYER allows, clause by clause; each argument is the meaning of a mutated one."""

    def is_allowed(sent: Sent) -> bool:
        facts = sent.facts
        return (
            sent.action in actions
            and resources(sent)
            and all(keys(sent, value) for value in facts["dynamodb:leadingkeys"])
            and all(name in attributes for name in facts["dynamodb:attributes"])
            and select(facts.get("dynamodb:select", ()))
            and returns(facts.get("dynamodb:returnvalues", ()))
            and not any(map(hidden, facts["dynamodb:attributes"]))
        )

    return {nth for nth, sent in enumerate(REQUESTS) if is_allowed(sent)}


ALL = ("Losses", "Secret", "Wins", "pk")
CONDITION = ("Statement", 0, "Condition")
SETS, SINGLES = (*CONDITION, "ForAllValues:StringEquals"), (*CONDITION, "StringEqualsIfExists")
# The clause, its new value (None removes it), and the requests that are allowed then.
MUTATIONS: dict[str, tuple[tuple[str | int, ...], Any, set[int]]] = {
    "an effect": (("Statement", 0, "Effect"), "Deny", set()),
    "an action less": (
        ("Statement", 0, "Action"),
        ["dynamodb:GetItem", "dynamodb:Query"],
        meant(actions=("GetItem", "Query")),
    ),
    "an action more": (
        ("Statement", 0, "Action"),
        ["dynamodb:GetItem", "dynamodb:Scan"],
        meant(actions=("GetItem", "Scan")),
    ),
    "a wildcard in an action": (
        ("Statement", 0, "Action"),
        "dynamodb:*Item",
        meant(actions=("GetItem", "PutItem", "UpdateItem")),
    ),
    "a resource less": (
        ("Statement", 0, "Resource"),
        f"{TABLE}Cars",
        meant(resources=lambda sent: sent.table == "Cars" and sent.index is None),
    ),
    "a wildcard in a resource": (
        ("Statement", 0, "Resource"),
        f"{TABLE}Cars/index/*",
        meant(resources=lambda sent: sent.table == "Cars" and sent.index is not None),
    ),
    "a prefix of a resource": (("Statement", 0, "Resource"), f"{TABLE}Car", set()),
    "every resource": (("Statement", 0, "Resource"), "*", meant(resources=lambda _: True)),
    "another leading key": (
        (*SETS, "dynamodb:LeadingKeys"),
        ["two"],
        meant(keys=lambda _, value: value == "two"),
    ),
    "no leading keys": ((*SETS, "dynamodb:LeadingKeys"), None, meant(keys=lambda *_: True)),
    "an attribute less": ((*SETS, "dynamodb:Attributes"), ["pk"], meant(attributes=("pk",))),
    "no attributes": ((*SETS, "dynamodb:Attributes"), None, meant(attributes=ALL)),
    "another Select": (
        (*SINGLES, "dynamodb:Select"),
        "ALL_ATTRIBUTES",
        meant(select=lambda values: values in ((), ("ALL_ATTRIBUTES",))),
    ),
    "no Select": ((*SINGLES, "dynamodb:Select"), None, meant(select=lambda _: True)),
    "no ReturnValues": ((*SINGLES, "dynamodb:ReturnValues"), None, meant(returns=lambda _: True)),
    "a Deny of another action": (("Statement", 1, "Action"), "dynamodb:Scan", meant()),
    "a Deny of an allowed attribute": (
        ("Statement", 1, "Condition", "ForAnyValue:StringLike", "dynamodb:Attributes"),
        "W?ns",
        meant(hidden=lambda name: name == "Wins"),
    ),
    "a Deny without a condition": (("Statement", 1, "Condition"), None, set()),
}


def mutated(path: tuple[str | int, ...], value: Any) -> Any:
    document = json.loads(json.dumps(PLAYER))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return document


@pytest.mark.guarantee("SEC5")
def test_a_document_allows_the_requests_that_it_says() -> None:
    assert meant() == allowed(PLAYER)
    assert 20 < len(meant()) < len(REQUESTS) / 10


@pytest.mark.guarantee("SEC5")
@pytest.mark.parametrize("clause", MUTATIONS)
def test_a_mutated_clause_changes_exactly_its_decisions(clause: str) -> None:
    path, value, expected = MUTATIONS[clause]
    found = allowed(mutated(path, value))

    assert expected == found
    assert clause == "a Deny of another action" or found != meant()


@pytest.mark.guarantee("SEC5")
def test_an_element_of_another_name_is_refused() -> None:
    """Each name of a member matters: with another name the document is refused."""
    refused = []

    def rename(element: Any, root: Any) -> None:
        if isinstance(element, list):
            for each in element:
                rename(each, root)
        if isinstance(element, dict):
            for name in list(element):
                inner = element.pop(name)
                element[f"{name}x"] = inner
                try:
                    parse_policy(json.dumps(root), Holder.KEY)
                except PolicyError:
                    refused.append(name)
                else:
                    pytest.fail(f"{name}x is accepted")
                del element[f"{name}x"]
                element[name] = inner
                rename(inner, root)

    document = json.loads(json.dumps(PLAYER))
    rename(document, document)

    assert len(refused) == 18
