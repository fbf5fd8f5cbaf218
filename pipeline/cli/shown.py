"""Show the progress of a command on standard error: a bar on a terminal, lines elsewhere."""

import sys
from typing import TYPE_CHECKING, Final, Self

from pipeline.progress import Progress, Step
from pipeline.report.words import count, duration

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from pipeline.build import Built

_MEGABYTE: Final = 1_000_000


class Shown:
    """A context manager with one bar over all stages of a command. It removes the bar at its end."""

    def __init__(self, n_stages: int = 1) -> None:
        self._n_stages = n_stages
        self._n_finished = 0
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
            self._bars = Bars(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
            self._task = self._bars.add_task("reading the log", total=self._n_stages)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def begin_stage(self) -> None:
        """Note the end of a stage and the start of the next one."""
        self._n_finished += 1

    def ingested(self, progress: Progress) -> None:
        """Show the progress of an ingest."""
        line = of_ingest(progress)
        if not self._moved(f"ingest: {line}", progress.bytes, progress.bytes + progress.bytes_left):
            print(line, file=sys.stderr)

    def begins(self, step: Step) -> None:
        """Note the start of a step of a build or a report. Its line is printed at its end."""
        self._moved(f"{step.number} of {step.of} {step.name}", step.number - 1, step.of)

    def built(self, built: "Built") -> None:
        """Show a completed table."""
        if self._bars is None:
            print(f"{built.name}: {count(built.rows, 'row')} in {built.seconds:.1f} s", file=sys.stderr)

    def _moved(self, description: str, done: float, total: float) -> bool:
        """Update the bar; return False without one."""
        if self._bars is None or self._task is None:
            return False
        completed = self._n_finished + (done / total if total else 0)
        self._bars.update(self._task, description=description, completed=completed)
        return True


def of_ingest(progress: Progress) -> str:
    """Format the progress of an ingest in one line."""
    done, left = progress.bytes / _MEGABYTE, progress.bytes_left / _MEGABYTE
    line = f"{count(progress.records, 'record')}, {done:,.1f} MB"
    if progress.bytes_left and progress.left_s is not None:
        line += f"; {left:,.1f} MB left, about {duration(progress.left_s)}"
    return line
