"""What a target of the fuzzer is: a function of any bytes, and bytes to begin with."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .steps import bounded

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder and the property that it has.

    Attributes:
        name: What the command line calls it.
        judge: Raises if the property does not hold of some bytes.
        samples: Inputs from which the fuzzer makes others.
        words: What inputs consist of; the fuzzer would have to guess them.
        steps: The lines of Python that an empty input may take, and each byte of a longer one.
        bytes_max: How long an input may grow.
    """

    name: str
    judge: Callable[[bytes], None]
    samples: Iterable[bytes]
    words: tuple[str, ...] = ()
    steps: tuple[int, int] = (3000, 100)
    bytes_max: int = 1024

    def run(self, data: bytes) -> int:
        """Judge an input within its steps, and return how many it took."""
        fixed, each = self.steps
        return bounded(fixed + each * len(data), self.judge, data)[1]

    @property
    def corpus(self) -> Path:
        """Where inputs are kept that have broken it once."""
        return CORPUS / self.name
