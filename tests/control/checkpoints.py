"""Requests that run at the checkpoints of a job, where other work may run."""

from collections.abc import Awaitable, Callable

import pytest

from coordinator.core.time_budget import TimeBudget


class CheckpointRequests:
    """Runs a request at one checkpoint of each job that starts while this is installed, or at all of them."""

    def __init__(self, run_request: Callable[[], Awaitable[object]], at: int | None = None) -> None:
        """`at` is the number of the checkpoint, from 0; None for every checkpoint."""
        self.count = 0
        """How many checkpoints the job has had."""
        self._run_request = run_request
        self._at = at
        self._is_running = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "CheckpointRequests":
        """Take the place of the checkpoints of all time budgets. Those of the request itself do nothing."""

        async def checkpoint(budget: TimeBudget) -> None:
            if not self._is_running:
                self._is_running = True
                number, self.count = self.count, self.count + 1
                if self._at in (None, number):
                    await self._run_request()
                self._is_running = False

        monkeypatch.setattr(TimeBudget, "checkpoint", checkpoint)
        return self
