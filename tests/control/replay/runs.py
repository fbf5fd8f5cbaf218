"""Recorded runs of the simulator: their list, and the configuration of a core that plays them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import NamedTuple
from unittest.mock import patch

from coordinator.control.replay.recording_file import RecordingFile
from coordinator.group.consumer import target_assignment
from tests.control.replay.recorder import Recorder
from tests.simulation.consumers.run import ConsumerSimulation
from tests.simulation.faults import GROUPS
from tests.simulation.run import Failed, Simulation

STEPS = 400
MIDDLE = 15
"""Requests after which a recording begins that does not begin with a new group."""


class Run(NamedTuple):
    """One run. `inline_max` is up to which size its core computes targets itself."""

    recorder: Recorder
    inline_max: int

    @contextmanager
    def core(self) -> Iterator[None]:
        """The core of that run."""
        with patch.object(target_assignment, "INLINE_MAX", self.inline_max):
            yield

    def recorded(self) -> list[RecordingFile]:
        """Its recordings, as they are read from their files."""
        return self.recorder.recorded()


@lru_cache(maxsize=64)
def run(seed: int, *, of_consumers: bool, begins_after: int = 0, steps: int = STEPS) -> Run:
    """Run a seed of classic or consumer groups. Tests share a run and must not change its recordings."""
    recorder = Recorder(tuple(GROUPS), begins_after)
    simulation: Simulation | ConsumerSimulation
    inline_max = target_assignment.INLINE_MAX
    if of_consumers:
        simulation = ConsumerSimulation(seed, shard=recorder)
        inline_max, steps = simulation.inline_max, steps // 2
    else:
        simulation = Simulation(seed, shard=recorder)
    with suppress(Failed):
        simulation.run(steps)
    return Run(recorder, inline_max)
