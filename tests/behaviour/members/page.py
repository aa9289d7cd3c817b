"""The tables of docs/limitations.md: operations and members that foldb does not honour.

python -m tests.behaviour.members.page      writes the tables from the service models, the samples and this module
"""

from pathlib import Path

from tests.behaviour.members.model import (
    SERVED,
    WITHOUT_GLOBAL_TABLES,
    absent,
    members,
    places,
    smallest_request,
)
from tests.behaviour.members.samples import samples
from tests.behaviour.members.world import observe

PAGE = Path(__file__).parents[3] / "docs" / "limitations.md"

_GLOBAL, _VECTORS = "global tables", "vector indexes"

# The feature of an operation that foldb may lack, and what to use instead.
FEATURES: dict[str, tuple[str, str]] = {"SearchVectors": (_VECTORS, "")}
_FEATURES_OF_MEMBERS = {"FilterSpecification": "filters of exports"}

# Members that are kept and described, and have no other effect.
DESCRIBED = {
    "BillingMode": "Checks the combination with other settings. Nothing is billed.",
    "ProvisionedThroughput": (
        "Checks the limits of table and account. Throttles requests with [`--throttle`](throughput.md) alone."
    ),
    "OnDemandThroughput": "Checks the limits. Throttles requests with [`--throttle`](throughput.md) alone.",
    "WarmThroughput": "Checks the limits. The table is as fast without it.",
    "SSESpecification": "Encrypts nothing. Encrypt the disk.",
    "TableClass": "Stores all tables in the same way.",
    "S3BucketOwner": "The bucket is a folder of the server ([buckets.md](buckets.md)).",
    "S3SseAlgorithm": "Names the encryption in the manifest. Encrypts nothing.",
    "S3SseKmsKeyId": "Names the key in the manifest. Encrypts nothing.",
    "PerformanceTier": "Puts items as fast in both tiers.",
}

# Members that a whole request refuses for a reason of DynamoDB's own, in its words.
REFUSED_BY_DYNAMODB = {
    "DisableKinesisStreamingDestination.EnableKinesisStreamingConfiguration": (
        "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
    ),
}


def shown() -> set[str]:
    """Return the members that a sample is about: each of them has an effect."""
    return {
        place.path
        for sample in samples()
        for place in places(sample.operation, sample.body)
        if sample.about is None or place.path.rpartition(".")[2] in sample.about
    }


def known() -> list[str]:
    """Return the members of the models' operations that foldb serves and that do not always answer alike."""
    served = (name for names in SERVED.values() for name in sorted(names - WITHOUT_GLOBAL_TABLES))
    return [path for name in served for path in members(name)]


def refused() -> list[str]:
    """Return the members that no sample has, without those inside of another: each must be refused."""
    have = shown() | REFUSED_BY_DYNAMODB.keys()
    outermost: list[str] = []
    for path in known():
        if path not in have and not is_inside(path, {*outermost, *REFUSED_BY_DYNAMODB}):
            outermost.append(path)
    return sorted(outermost)


def is_inside(path: str, outer: set[str]) -> bool:
    """Return whether a member is one of `outer` or inside of one."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[", f"{each}{{")) for each in outer)


def _absent_rows() -> list[tuple[str, ...]]:
    lacking = absent()
    named = [name for name in FEATURES if name in lacking]
    assert len(named) == len(lacking), f"name the feature of {sorted(lacking - FEATURES.keys())}"
    return [(f"`{name}`", *FEATURES[name]) for name in named]


def _global_rows() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in sorted(WITHOUT_GLOBAL_TABLES):
        error = observe([], (name, smallest_request(name))).error
        rows.append((f"`{name}`", f"`{error.partition(':')[0]}`" if error else "an empty list"))
    return rows


def _refused_rows() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for path in refused():
        operation, _, member = path.partition(".")
        feature = _VECTORS if "Vector" in member else _FEATURES_OF_MEMBERS.get(member, _GLOBAL)
        rows.append((f"`{operation}`", f"`{member}`", feature))
    return rows


def _described_rows() -> list[tuple[str, ...]]:
    have = shown()
    return [
        (
            ", ".join(
                f"`{name}`"
                for name in sorted(SERVED["dynamodb"])
                if any(path.startswith(f"{name}.") and path.endswith(f".{member}") for path in have)
            ),
            f"`{member}`",
            text,
        )
        for member, text in DESCRIBED.items()
    ]


def page() -> str:
    """Return the page with the tables as the models, the samples and this module have them."""
    text = PAGE.read_text()
    for heading, rows in (
        ("Operations that foldb does not have", _absent_rows()),
        ("Operations on global tables", _global_rows()),
        ("Members that foldb refuses", _refused_rows()),
        ("Settings that are kept and described, without effect", _described_rows()),
    ):
        before, title, rest = text.partition(f"\n## {heading}\n")
        assert title, f"the page has no section '{heading}'"
        lines = rest.splitlines(keepends=True)
        first = next(number for number, line in enumerate(lines) if line.startswith("| ---")) + 1
        last = next(
            number for number, line in enumerate(lines) if number >= first and not line.startswith("|")
        )
        written = [f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows]
        text = before + title + "".join([*lines[:first], *written, *lines[last:]])
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
