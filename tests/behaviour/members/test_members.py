"""Each member of each request has an effect, is refused, or is on the page of limitations; none is ignored silently.

The members come from the service models of botocore, so a new release of it brings the new members here. Two requests
that differ in one member alone are sent to two equal databases: the answers or the tables then differ, or the member is
refused. Access to a member proves nothing here, only an effect does.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.behaviour.members.model import SERVED, Place, absent, members, places, vacancies
from tests.behaviour.members.probes import effect, effect_added, sent, sent_again
from tests.behaviour.members.samples import Sample, samples
from tests.behaviour.members.world import observe

PAGE = (Path(__file__).parents[3] / "docs" / "limitations.md").read_text()
ALL = samples()
IDS = [f"{number} {sample.operation}" for number, sample in enumerate(ALL)]
WHOLE = [pytest.param(sample, id=name) for sample, name in zip(ALL, IDS, strict=True) if sample.about is None]

# Members that a whole request refuses for a reason of DynamoDB's own, in its words.
REFUSED_BY_DYNAMODB = {
    "DisableKinesisStreamingDestination.EnableKinesisStreamingConfiguration": (
        "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
    ),
}

# Members that do nothing when they are added to a sample, and why.
WITHOUT_EFFECT = {
    "ReturnValuesOnConditionCheckFailure": "The condition of the sample holds.",
    "ClientRequestToken": "The sample is sent once.",
    "PutItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "DeleteItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "UpdateItem.ConditionalOperator": "All conditions of the sample hold, so AND and OR are the same.",
    "DescribeStream.Limit": "ShardFilter leaves one shard.",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of a section's table, each as the names that it has in backquotes."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[" ".join(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[1:-1]] for line in lines]


def refused() -> set[str]:
    """The members that the page says are refused."""
    return {f"{row[0]}.{row[1]}" for row in rows("Members that foldb refuses")}


def is_inside(path: str, outer: set[str]) -> bool:
    """Whether a member is one of `outer` or inside of one."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[", f"{each}{{")) for each in outer)


def of_sample(sample: Sample) -> dict[str, list[Place]]:
    """The members that a sample is about, with the places where it has each."""
    found = defaultdict(list)
    for place in places(sample.operation, sample.body):
        if sample.about is None or place.path.rpartition(".")[2] in sample.about:
            found[place.path].append(place)
    return found


def ignored(sample: Sample) -> list[str]:
    """The members that do nothing when they are added to a sample."""
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
@pytest.mark.parametrize("sample", WHOLE)
def test_a_member_added_to_a_sample_is_not_ignored(sample: Sample) -> None:
    assert [] == [path for path in ignored(sample) if excuse(path) not in WITHOUT_EFFECT]


def test_each_excuse_for_a_member_without_effect_is_needed() -> None:
    used = {excuse(path) for sample in ALL if sample.about is None for path in ignored(sample)}

    assert WITHOUT_EFFECT.keys() <= used


@pytest.mark.guarantee("G19")
def test_each_member_of_the_model_is_in_a_sample_or_refused() -> None:
    """A member that a new release of botocore brings is in neither."""
    shown = {path for sample in ALL for path in of_sample(sample)}
    outside = refused() | REFUSED_BY_DYNAMODB.keys()
    known = [path for served in SERVED.values() for name in served for path in members(name)]

    assert [] == [path for path in known if path not in shown and not is_inside(path, outside)]
    assert set() == {path for path in shown if is_inside(path, outside)}
    assert outside <= set(known)


@pytest.mark.parametrize("path", sorted(refused()))
def test_a_refused_member_is_named_with_the_page(path: str) -> None:
    operation, _, name = path.partition(".")
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


def test_the_page_lists_the_operations_that_are_not_served() -> None:
    listed = [row[0] for row in rows("Operations that foldb does not have")]

    assert sorted(absent()) == sorted(listed)


@pytest.mark.parametrize("name", sorted(absent()))
def test_an_operation_on_the_page_names_the_page(name: str) -> None:
    error = observe([], (name, {})).error

    assert error.startswith("UnknownOperationException: ")
    assert error.endswith("docs/limitations.md")


def test_settings_without_effect_are_members_that_are_kept() -> None:
    shown = {path for sample in ALL for path in of_sample(sample)}
    listed = rows("Settings that are kept and described, without effect")

    assert listed
    assert {f"{name}.{row[1]}" for row in listed for name in row[0].split()} <= shown


@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_equal_databases_answer_alike(sample: Sample) -> None:
    """Otherwise a difference between two answers would prove nothing."""
    first = sent(sample, sample.body)

    assert first == sent_again(sample)
    assert sample.about is not None or not first.error
