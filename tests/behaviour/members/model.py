"""The members of DynamoDB's requests, from the service models that botocore ships.

A path names a member of an operation: `Query.Limit`, `BatchGetItem.RequestItems{}.Keys`, where `[]` is any element of a
list and `{}` any value of a map. Attribute values are one thing here: they have tests of their own.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from botocore.model import ServiceModel, Shape
from botocore.session import Session

from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS

SERVED = {"dynamodb": frozenset(OPERATIONS), "dynamodbstreams": frozenset(STREAMS)}

# They answer as in an account that has no global table, with all members.
WITHOUT_GLOBAL_TABLES = frozenset(
    (
        "CreateGlobalTable",
        "DescribeGlobalTable",
        "DescribeGlobalTableSettings",
        "DescribeTableReplicaAutoScaling",
        "ListGlobalTables",
        "UpdateGlobalTable",
        "UpdateGlobalTableSettings",
        "UpdateTableReplicaAutoScaling",
    )
)

Steps = tuple[str | int, ...]


class Place(NamedTuple):
    """A place in a request: its member's path, its shape, and the steps that lead there."""

    path: str
    shape: Shape
    steps: Steps


@cache
def service(name: str) -> ServiceModel:
    """The model of a service."""
    return Session().get_service_model(name)


def absent() -> set[str]:
    """The operations of DynamoDB and of its streams that foldb does not serve."""
    return {name for of, served in SERVED.items() for name in set(service(of).operation_names) - served}


@cache
def shape_of(operation: str) -> Shape | None:
    """The shape of an operation's input."""
    of = "dynamodbstreams" if operation in STREAMS else "dynamodb"
    return service(of).operation_model(operation).input_shape


def members(operation: str) -> list[str]:
    """All members of an operation, each behind the one that contains it."""
    shape = shape_of(operation)
    return [] if shape is None else list(_members(shape, operation))


def _members(shape: Any, path: str) -> Iterator[str]:
    if is_structure(shape):
        for name, member in shape.members.items():
            yield f"{path}.{name}"
            yield from _members(member, f"{path}.{name}")
    elif shape.type_name == "list":
        yield from _members(shape.member, f"{path}[]")
    elif shape.type_name == "map":
        yield from _members(shape.value, f"{path}{{}}")


def is_structure(shape: Any) -> bool:
    """Whether the shape has members that are counted here."""
    return bool(shape.type_name == "structure" and shape.name != "AttributeValue")


def places(operation: str, body: Any) -> Iterator[Place]:
    """Each member that a request has."""
    shape = shape_of(operation)
    if shape is not None:
        yield from _places(shape, body, operation, ())


def _places(shape: Any, value: Any, path: str, steps: Steps) -> Iterator[Place]:
    if is_structure(shape):
        for name in value:
            place = Place(f"{path}.{name}", shape.members[name], (*steps, name))
            yield place
            yield from _places(place.shape, value[name], place.path, place.steps)
    elif shape.type_name == "list":
        for number, element in enumerate(value):
            yield from _places(shape.member, element, f"{path}[]", (*steps, number))
    elif shape.type_name == "map":
        for key, member in value.items():
            yield from _places(shape.value, member, f"{path}{{}}", (*steps, key))


def vacancies(operation: str, body: Any) -> Iterator[Place]:
    """Each member that a request could have and does not have; not those inside of another such member."""
    shape = shape_of(operation)
    if shape is not None:
        yield from _vacancies(shape, body, operation, ())


def _vacancies(shape: Any, value: Any, path: str, steps: Steps) -> Iterator[Place]:
    if is_structure(shape):
        for name, member in shape.members.items():
            place = Place(f"{path}.{name}", member, (*steps, name))
            if name in value:
                yield from _vacancies(member, value[name], place.path, place.steps)
            else:
                yield place
    elif shape.type_name == "list":
        for number, element in enumerate(value):
            yield from _vacancies(shape.member, element, f"{path}[]", (*steps, number))
    elif shape.type_name == "map":
        for key, member in value.items():
            yield from _vacancies(shape.value, member, f"{path}{{}}", (*steps, key))


def smallest_request(operation: str) -> Any:
    """Make the smallest request of an operation, with all that the model requires."""
    shape = shape_of(operation)
    assert shape is not None, "the operation has members"
    return {name: smallest(shape.members[name]) for name in shape.required_members}


def smallest(shape: Any) -> Any:
    """Make the smallest value that the model allows, with all that it requires."""
    if shape.name == "AttributeValue":
        return {"S": "a"}
    match shape.type_name:
        case "structure":
            required = shape.required_members or list(shape.members)[:1]
            return {name: smallest(shape.members[name]) for name in required}
        case "list":
            return [smallest(shape.member)]
        case "map":
            return {"a": smallest(shape.value)}
        case "string":
            return shape.enum[0] if shape.enum else "a" * max(3, shape.metadata.get("min", 0))
        case "boolean":
            return True
        case "integer" | "long" | "timestamp":
            return max(1, shape.metadata.get("min", 1))
    raise AssertionError(f"a shape of the type {shape.type_name}")
