"""Plays attacks on one daemon beside one neighbour, and finds violations of the bounds."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from tests.cpu_limits import measure_slowdown
from tests.crash.process import Process
from tests.hostile.attacks import loop_monitor
from tests.hostile.attacks.attack import Attack, AttackSize
from tests.hostile.attacks.expensive_state import OPTIONS, StateSize, fill_daemon, join_own_group
from tests.hostile.attacks.field_values import DaemonState, FieldValues, MemberIdentity
from tests.hostile.attacks.loop_monitor import FILE_VARIABLE, LoopStep, read_steps
from tests.hostile.attacks.request_builder import RequestBuilder
from tests.hostile.siege.attacker import Attacker, Hostile, frame
from tests.hostile.siege.siege import OPTIONS as SIEGE_OPTIONS
from tests.hostile.siege.siege import Neighbour, NeighbourReport, read_memory_bytes, reset_peak_memory

MAX_STEP_S: Final = 0.25
"""CPU time of a step of the loop, and of the daemon while a neighbour waits for an answer, on the reference machine
of `tests/cpu_limits.py`. A slower machine may take longer by its slowdown."""
MAX_GROWTH_BYTES: Final = 200 * 1024 * 1024
MAX_KEPT_BYTES: Final = 100 * 1024 * 1024
RELEASE_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.05
_NEEDS_OWN_GROUP: Final = {ApiKey.SYNC_GROUP: False, ApiKey.CONSUMER_GROUP_HEARTBEAT: True}
"""APIs that accept lists from members only; the value is True for members of a consumer group."""


class AttackResult(NamedTuple):
    """The measured effects of one attack. Times of the CPU are judged, wall time is reported."""

    attack: Attack
    request_bytes: int
    answer_bytes: int | None
    """None when the daemon closed the connection."""
    answer_s: float
    longest_step: LoopStep
    neighbour: NeighbourReport
    growth_bytes: int
    kept_bytes: int
    slowdown: float

    def find_violations(self) -> list[str]:
        """Return a line for each bound that the daemon exceeded."""
        step, most_s = self.longest_step, MAX_STEP_S * self.slowdown
        violations = []
        if step.cpu_s > most_s:
            stacks = "".join(f"\n    {stack}" for stack in step.stacks) or " (no stack was sampled)"
            violations.append(
                f"the loop was held for {step.cpu_s:.3f} CPU-s ({step.wall_s:.3f} s) in{stacks}"
            )
        if self.neighbour.worst_cpu_ms > most_s * 1000:
            violations.append(
                f"a neighbour waited {self.neighbour.worst_ms:.0f} ms, in which the daemon used "
                f"{self.neighbour.worst_cpu_ms:.0f} ms of the CPU"
            )
        if self.growth_bytes > MAX_GROWTH_BYTES:
            violations.append(f"memory grew by {self.growth_bytes >> 20} MB")
        if self.kept_bytes > MAX_KEPT_BYTES:
            violations.append(f"the daemon kept {self.kept_bytes >> 20} MB after the connection had closed")
        return [f"{self.attack}: {violation}" for violation in violations]

    def format_row(self) -> str:
        """Return the figures as a row of a table."""
        answer = "closed" if self.answer_bytes is None else str(self.answer_bytes)
        return (
            f"{self.attack!s:75} {self.longest_step.cpu_s * 1000:6.0f} {self.longest_step.wall_s * 1000:6.0f} "
            f"{self.neighbour.worst_cpu_ms:6.0f} {self.neighbour.worst_ms:6.0f} {self.answer_s:6.2f} "
            f"{self.request_bytes:9} {answer:>9} {self.growth_bytes >> 20:5} {self.kept_bytes >> 20:5}"
        )


TABLE_HEAD: Final = (
    f"{'attack':75} {'step':>6} {'wall':>6} {'neigh.':>6} {'wall':>6} {'answer':>6} {'request':>9} {'answer':>9} "
    f"{'grown':>5} {'kept':>5}"
)
"""Milliseconds of the CPU and of wall time, seconds, bytes, megabytes."""


class AttackRunner:
    """Plays attacks on a filled daemon, one after another."""

    def __init__(
        self, daemon: Process, attacker: Attacker, neighbour: Neighbour, state: DaemonState, steps: Path
    ) -> None:
        self.state = state
        self._daemon = daemon
        self._attacker = attacker
        self._neighbour = neighbour
        self._steps = steps
        self._steps_position = 0
        self._number = 0

    async def play(self, attack: Attack, size: AttackSize) -> AttackResult:
        """Send the request of an attack and measure until its memory is released."""
        self._number += 1
        request = await self._build_request(attack, size)
        data = frame(request, attack.version)
        del request
        hostile = await self._attacker.connect()
        before_bytes = read_memory_bytes(self._daemon.process_id, "VmRSS")
        reset_peak_memory(self._daemon.process_id)
        self._take_steps()
        await self._neighbour.report()
        sent_s = time.monotonic()
        await hostile.send(data)
        try:
            answer = await hostile.answer()
        except TimeoutError:
            raise AssertionError(f"{attack}: no answer; the log ends with\n{self.read_log()}") from None
        answer_s = time.monotonic() - sent_s
        await self._pass_step()
        report = await self._neighbour.report()
        peak_bytes = read_memory_bytes(self._daemon.process_id, "VmHWM")
        await hostile.close()
        kept_bytes = await self._wait_for_release(before_bytes)
        steps = self._take_steps()
        return AttackResult(
            attack=attack,
            request_bytes=len(data),
            answer_bytes=None if answer is None else len(answer),
            answer_s=answer_s,
            longest_step=max(steps, default=LoopStep(), key=lambda step: step.cpu_s),
            neighbour=report,
            growth_bytes=peak_bytes - before_bytes,
            kept_bytes=kept_bytes,
            slowdown=measure_slowdown(),
        )

    def read_log(self) -> str:
        """Return the last lines of the daemon's log."""
        return self._daemon.log()

    async def _build_request(self, attack: Attack, size: AttackSize) -> Any:
        member = None
        is_consumer_group = _NEEDS_OWN_GROUP.get(attack.list_field.api.key)
        if is_consumer_group is not None and attack.list_field.path != ("subscribed_topic_names",):
            client = await self._attacker.connect()
            member = await join_own_group(client, f"own-{self._number}", is_consumer_group=is_consumer_group)
        elif is_consumer_group:
            member = MemberIdentity(f"own-{self._number}", "owner")
        values = FieldValues(self.state, self._number, member, creates_topics=size.creates_topics)
        return RequestBuilder(attack, size, values).build()

    async def _pass_step(self) -> None:
        """Wait until the loop has ended the step that sent the answer."""
        probe: Hostile = await self._attacker.connect()
        assert await probe.call(ApiVersionsRequest(), 0) is not None, self._daemon.log()
        await probe.close()

    async def _wait_for_release(self, before_bytes: int) -> int:
        """Wait until the daemon has given memory back; return the bytes that it keeps."""
        deadline_s = time.monotonic() + RELEASE_TIMEOUT_S
        while True:
            kept_bytes = read_memory_bytes(self._daemon.process_id, "VmRSS") - before_bytes
            if kept_bytes <= MAX_KEPT_BYTES or time.monotonic() > deadline_s:
                return kept_bytes
            await asyncio.sleep(_POLL_INTERVAL_S)

    def _take_steps(self) -> list[LoopStep]:
        steps, self._steps_position = read_steps(self._steps, self._steps_position)
        return steps


@asynccontextmanager
async def filled_daemon(
    directory: Path,
    size: StateSize,
    *,
    module: str = loop_monitor.MODULE,
    variables: dict[str, str] | None = None,
) -> AsyncIterator[AttackRunner]:
    """Start a daemon with expensive state and a neighbour. The daemon must stop cleanly at the end.

    Args:
        directory: for data, log and the steps of the loop.
        size: how much state the daemon gets.
        module: the module that is run; it must measure its loop.
        variables: further environment variables of the daemon.
    """
    steps = directory / "steps"
    steps.touch()
    daemon = await Process.start(
        directory / "data",
        directory / "log",
        (*SIEGE_OPTIONS, *OPTIONS),
        module=module,
        variables={FILE_VARIABLE: str(steps), **(variables or {})},
    )
    try:
        await daemon.ready()
        attacker = Attacker(daemon.port)
        state = await fill_daemon(attacker, size)
        neighbour = await Neighbour.beside(daemon)
        try:
            yield AttackRunner(daemon, attacker, neighbour, state, steps)
        finally:
            await neighbour.end()
            await attacker.close()
        daemon.terminate()
        assert await daemon.ended() == 0, daemon.log()
    finally:
        await daemon.kill()
