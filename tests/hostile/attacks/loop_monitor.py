"""`python -m tests.hostile.attacks.loop_monitor serve ...`: a daemon that writes down the long steps of its loop.

A step is an iteration of the event loop, in which no other client is answered. A timer that is due in each long
iteration measures the CPU time of the main thread since it last ran. A step of `MIN_STEP_S` or more becomes a line
of JSON in the file that the environment variable `LOOP_STEPS_FILE` names. A thread samples the stack of the main
thread in long steps. On a busy machine steps take more wall time, but hardly more CPU time.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import uvloop

from coordinator.cli.main import main as groupd

FILE_VARIABLE: Final = "LOOP_STEPS_FILE"
MODULE: Final = "tests.hostile.attacks.loop_monitor"
MIN_STEP_S: Final = 0.02
SAMPLED_FROM_S: Final = 0.08
"""The CPU time of a step from which its stack is sampled."""
SAMPLE_INTERVAL_S: Final = 0.02
TIMER_INTERVAL_S: Final = 0.005
"""Short steps that follow each other count as one step of this length at most."""
_SHOWN_FRAMES: Final = 9
_SHOWN_STACKS: Final = 3


class LoopStep(NamedTuple):
    """A step of the loop, in seconds of the main thread's CPU time and of wall time, with its frequent stacks."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    stacks: tuple[str, ...] = ()


class _StepWriter:
    """Measures the steps of a loop that runs in the main thread."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._file = path.open("a", buffering=1)
        self._loop = loop
        self._main = threading.main_thread().ident or 0
        self._clock = time.pthread_getcpuclockid(self._main)
        self._stacks: Counter[str] = Counter()
        self._collection_s = 0.0
        gc.callbacks.append(self._on_collection)
        self._begin_step()
        threading.Thread(target=self._sample_stacks, name="stack sampler", daemon=True).start()

    def _begin_step(self) -> None:
        self._cpu_began, self._wall_began = time.thread_time(), time.monotonic()
        self._loop.call_later(TIMER_INTERVAL_S, self._end_step)

    def _end_step(self) -> None:
        cpu_s = time.thread_time() - self._cpu_began
        if cpu_s >= MIN_STEP_S:
            stacks = [stack for stack, _ in self._stacks.most_common(_SHOWN_STACKS)]
            if self._collection_s >= MIN_STEP_S:
                stacks.insert(0, f"garbage collection: {self._collection_s:.3f} s")
            wall_s = time.monotonic() - self._wall_began
            self._file.write(json.dumps([round(cpu_s, 4), round(wall_s, 4), stacks]) + "\n")
        self._stacks = Counter()
        self._collection_s = 0.0
        self._begin_step()

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        """Add the time of a garbage collection in the main thread to its step."""
        if threading.get_ident() == self._main:
            self._collection_s += time.thread_time() * (1 if phase == "stop" else -1)

    def _sample_stacks(self) -> None:
        """Sample the stack of the main thread in long steps, until the process ends."""
        while True:
            time.sleep(SAMPLE_INTERVAL_S)
            stacks = self._stacks
            if time.clock_gettime(self._clock) - self._cpu_began >= SAMPLED_FROM_S:
                stacks[_format_stack(sys._current_frames()[self._main])] += 1


def _format_stack(frame: FrameType) -> str:
    """The innermost functions, the innermost last: file:line function."""
    frames = traceback.extract_stack(frame)[-_SHOWN_FRAMES:]
    root = str(Path(__file__).parents[3]) + os.sep
    return " > ".join(f"{each.filename.removeprefix(root)}:{each.lineno} {each.name}" for each in frames)


def read_steps(path: Path, position: int) -> tuple[list[LoopStep], int]:
    """Return the steps that a daemon has written since a position in its file, and the next position."""
    with path.open("rb") as file:
        file.seek(position)
        data = file.read()
    complete = data[: data.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in complete.splitlines()]
    return [LoopStep(cpu_s, wall_s, tuple(stacks)) for cpu_s, wall_s, stacks in lines], position + len(
        complete
    )


def main() -> None:
    """Run groupd with a measured loop."""
    create_loop = uvloop.new_event_loop

    def create_measured_loop() -> uvloop.Loop:
        loop = create_loop()
        _StepWriter(Path(os.environ[FILE_VARIABLE]), loop)
        return loop

    uvloop.new_event_loop = create_measured_loop
    groupd()


if __name__ == "__main__":
    main()
