"""A target of the fuzzer: a function of arbitrary bytes, and initial inputs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.verification.fuzz.steps import bounded

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder and the property that it has.

    Attributes:
        name: What the command line calls it.
        judge: Raises if the property does not hold of some bytes; if there is a world, it gets that too.
        samples: Inputs from which the fuzzer makes others.
        words: What inputs consist of; the fuzzer would have to guess them.
        steps: The lines of Python that an empty input may take, and each byte of a longer one.
        bytes_max: How long an input may grow.
        world: Makes the subject of an input, a new one for each input, before steps are counted.
    """

    name: str
    judge: Callable[..., None]
    samples: Iterable[bytes]
    words: tuple[str, ...] = ()
    steps: tuple[int, int] = (3000, 100)
    bytes_max: int = 1024
    world: Callable[[], Any] | None = None

    def run(self, data: bytes) -> int:
        """Judge an input within its steps, and return how many it took."""
        fixed, each = self.steps
        world = [] if self.world is None else [self.world()]
        return bounded(fixed + each * len(data), self.judge, data, *world)[1]

    @property
    def corpus(self) -> Path:
        """Where inputs are kept that have broken it once."""
        return CORPUS / self.name
