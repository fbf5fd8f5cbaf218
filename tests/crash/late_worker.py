"""The parts of a syncer, which a test starts in its own thread."""

from collections.abc import Callable
from random import Random

from storage.syncer import JobRunner, Syncer, SyncJob, SyncResult


class LateWorker:
    """Jobs wait until they are run; none is lost."""

    def __init__(self, run: JobRunner) -> None:
        self._run = run
        self._jobs: list[SyncJob] = []

    def enqueue(self, job: SyncJob) -> None:
        self._jobs.append(job)

    def work(self, count: int) -> None:
        """Runs the first of them together."""
        jobs, self._jobs = self._jobs[:count], self._jobs[count:]
        self._run(jobs)
        for job in jobs:
            job.finish_part()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def close(self) -> None:
        self.work(self.waiting)


class LateSyncer:
    """A syncer without threads: a test chooses when a started sync proceeds."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.workers: dict[str, LateWorker] = {}
        self.syncer = Syncer(self._new_worker)

    def _new_worker(self, name: str, run: JobRunner) -> LateWorker:
        return self.workers.setdefault(name, LateWorker(run))

    def work_some(self) -> None:
        """Run a random part of the pending work."""
        for name in self._random.sample(sorted(self.workers), len(self.workers)):
            worker = self.workers[name]
            if worker.waiting:
                worker.work(self._random.randrange(worker.waiting + 1))

    def work_until(self, results: list[SyncResult]) -> None:
        """Run pending work in random order until there is a result."""
        while not results:
            waiting = [worker for worker in self.workers.values() if worker.waiting]
            assert waiting, "nothing is left that could bring it about"
            self._random.choice(waiting).work(1)


def results() -> tuple[list[SyncResult], Callable[[SyncResult], None]]:
    """Return a list and the callback that appends to it."""
    found: list[SyncResult] = []
    return found, found.append
