"""The loop: mutate, run, keep the inputs that reach new edges."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.hostile.fuzz.coverage import Coverage, TooManySteps
from tests.hostile.fuzz.mutator import Mutator
from tests.hostile.fuzz.target import Target

_MEMORY_EVERY: Final = 64
"""Of the inputs that find nothing new, one in so many has its memory measured as well."""
_FAVOURED: Final = 0.5
"""How often one of the newest inputs is changed rather than any."""
_NEWEST: Final = 8


class Finding(AssertionError):
    """An input that broke a law. The text names the law and the command that repeats it."""

    def __init__(self, target: Target, data: bytes, law: str) -> None:
        super().__init__(f"{target.name}: {law}\n{data.hex()}")
        self.data = data


@dataclass
class Fuzzer:
    """One target under one random source."""

    target: Target
    seed: int
    coverage: Coverage = field(default_factory=Coverage)
    runs: int = 0

    def __post_init__(self) -> None:
        self._chance = Random(f"{self.seed} {self.target.name}")
        self._mutator = Mutator(self._chance)
        self.corpus = list(self.target.seeds)
        for data in self.target.seeds:
            self._try(data)

    def run(self, goes_on: Callable[[int], bool]) -> None:
        """Runs while `goes_on(number of runs)`. Raises Finding."""
        while goes_on(self.runs):
            data = self._mutator.mutate(self._pick(), self.corpus)
            if self.target.fix is not None and self._chance.random() < 0.5:
                data = self.target.fix(data)
            self._try(data)

    def _pick(self) -> bytes:
        if self._chance.random() < _FAVOURED:
            return self._chance.choice(self.corpus[-_NEWEST:])
        return self._chance.choice(self.corpus)

    def _try(self, data: bytes) -> None:
        self.runs += 1
        target = self.target
        try:
            self.coverage.run(lambda: target.call(data), target.most_steps(data))
        except target.errors:
            pass
        except TooManySteps as problem:
            raise Finding(target, data, f"it takes too long: {problem}") from None
        except Exception as problem:
            raise Finding(target, data, f"{type(problem).__name__}: {problem}") from problem
        is_new = self.coverage.new_edges > 0
        if is_new:
            self.corpus.append(data)
        if is_new or not self.runs % _MEMORY_EVERY:
            self._weigh(data)

    def _weigh(self, data: bytes) -> None:
        tracemalloc.start()
        try:
            self.target.call(data)
        except self.target.errors:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        if peak > self.target.most_bytes(data):
            raise Finding(self.target, data, f"it takes {peak} bytes of memory for {len(data)} bytes")
