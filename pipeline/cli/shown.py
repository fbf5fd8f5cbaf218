"""Show the progress of a command on standard error: a bar on a terminal, lines elsewhere."""

import sys
from typing import TYPE_CHECKING, Final, Self

from pipeline.progress import Progress, Step

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from pipeline.build import Built

_MEGABYTE: Final = 1_000_000


class Shown:
    """A context manager that removes the bar at its end."""

    def __init__(self) -> None:
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
            self._task = self._bars.add_task("starting Spark", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

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
            print(f"{built.name}: {built.rows:,} rows in {built.seconds:.1f} s", file=sys.stderr)

    def _moved(self, description: str, done: float, total: float) -> bool:
        """Update the bar; return False without one."""
        if self._bars is None or self._task is None:
            return False
        self._bars.update(self._task, description=description, completed=done, total=total)
        return True


def of_ingest(progress: Progress) -> str:
    """Format the progress of an ingest in one line."""
    done, left = progress.bytes / _MEGABYTE, progress.bytes_left / _MEGABYTE
    line = f"{progress.records:,} records, {done:,.1f} MB"
    if progress.bytes_left and progress.left_s is not None:
        line += f"; {left:,.1f} MB left, about {duration(progress.left_s)}"
    return line


def duration(seconds: float) -> str:
    """Format the largest relevant units: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
