"""Each member of each request has an effect, is refused, or is on the page of limitations; none is ignored silently.

The members come from the service models of botocore, so a new release of it brings the new members here. Two requests
that differ in one member alone are sent to two equal databases: the answers or the tables then differ, or the member is
refused. Access to a member proves nothing here, only an effect does.
"""

from collections import defaultdict
from functools import cache

import pytest

from tests.behaviour.members.model import (
    WITHOUT_GLOBAL_TABLES,
    Place,
    absent,
    places,
    smallest_request,
    vacancies,
)
from tests.behaviour.members.page import (
    DESCRIBED,
    PAGE,
    REFUSED_BY_DYNAMODB,
    page,
    refused,
    shown,
)
from tests.behaviour.members.probes import effect, effect_added, sent, sent_again
from tests.behaviour.members.samples import Sample, samples
from tests.behaviour.members.world import observe

ALL = samples()
IDS = [f"{number} {sample.operation}" for number, sample in enumerate(ALL)]
WHOLE = {name: sample for name, sample in zip(IDS, ALL, strict=True) if sample.about is None}

# Members that do nothing when they are added to a sample, and why.
WITHOUT_EFFECT = {
    "ReturnValuesOnConditionCheckFailure": "The condition of the sample holds.",
    "ClientRequestToken": "The sample is sent once.",
    "PutItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "DeleteItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "UpdateItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "DescribeStream.Limit": "ShardFilter leaves one shard.",
    "ListContributorInsights.MaxResults": "NextToken leaves one entry.",
}


def of_sample(sample: Sample) -> dict[str, list[Place]]:
    """The members that a sample is about, with the places where it has each."""
    found = defaultdict(list)
    for place in places(sample.operation, sample.body):
        if sample.about is None or place.path.rpartition(".")[2] in sample.about:
            found[place.path].append(place)
    return found


@cache
def ignored(name: str) -> list[str]:
    """The members that do nothing when they are added to a sample of `WHOLE`."""
    sample = WHOLE[name]
    lacking = vacancies(sample.operation, sample.body)
    return [place.path for place in lacking if not effect_added(sample, place)]


def excuse(path: str) -> str:
    """The name of a member, or its path if that alone is in `WITHOUT_EFFECT`."""
    name = path.rpartition(".")[2]
    return name if name in WITHOUT_EFFECT else path


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_each_member_of_a_sample_has_an_effect(sample: Sample) -> None:
    without = [
        path for path, found in of_sample(sample).items() if not any(effect(sample, place) for place in found)
    ]

    assert [] == without


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("name", WHOLE)
def test_a_member_added_to_a_sample_is_not_ignored(name: str) -> None:
    assert [] == [path for path in ignored(name) if excuse(path) not in WITHOUT_EFFECT]


def test_each_excuse_for_a_member_without_effect_is_needed() -> None:
    used = {excuse(path) for name in WHOLE for path in ignored(name)}

    assert WITHOUT_EFFECT.keys() <= used


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("path", refused())
def test_a_member_that_no_sample_has_is_refused(path: str) -> None:
    """Such as a member that a new release of botocore brings."""
    operation, name = path.partition(".")[0], path.rpartition(".")[2]
    errors = {
        effect_added(sample, place)
        for sample in ALL
        if sample.operation == operation and sample.about is None
        for place in vacancies(operation, sample.body)
        if place.path == path
    }

    assert {
        "ValidationException: One or more parameter values were invalid: "
        f"{name} is not supported by foldb: see docs/limitations.md"
    } == errors


@pytest.mark.parametrize("path", REFUSED_BY_DYNAMODB)
def test_a_member_that_dynamodb_refuses_is_refused_in_its_words(path: str) -> None:
    errors = {
        effect_added(sample, place)
        for sample in ALL
        if sample.operation == path.partition(".")[0]
        for place in vacancies(sample.operation, sample.body)
        if place.path == path
    }

    assert {f"ValidationException: {REFUSED_BY_DYNAMODB[path]}"} == errors


def test_the_page_lists_everything_that_is_not_honoured() -> None:
    assert page() == PAGE.read_text(), "run `python -m tests.behaviour.members.page`"


@pytest.mark.parametrize("name", sorted(absent()))
def test_an_operation_on_the_page_names_the_page(name: str) -> None:
    error = observe([], (name, {})).error

    assert error.startswith("UnknownOperationException: ")
    assert error.endswith("docs/limitations.md")


def test_settings_without_effect_are_members_that_are_kept() -> None:
    names = {path.rpartition(".")[2] for path in shown()}

    assert DESCRIBED.keys() <= names


@pytest.mark.parametrize("name", sorted(WITHOUT_GLOBAL_TABLES))
def test_an_operation_on_global_tables_validates_and_finds_none(name: str) -> None:
    required = smallest_request(name)
    error = observe([], (name, required)).error
    missing = observe([], (name, {})).error

    assert ("NotFoundException: " in error or "2017.11.29" in error) == bool(required)
    assert missing.startswith("ValidationException: ") == bool(required)


@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_equal_databases_answer_alike(sample: Sample) -> None:
    """Otherwise a difference between two answers would prove nothing."""
    first = sent(sample, sample.body)

    assert first == sent_again(sample)
    assert sample.about is not None or not first.error
