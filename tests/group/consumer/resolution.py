"""Regular expressions, resolved as whoever does the work does it."""

from coordinator.group.consumer.regular_expressions import MatchesTooMuch, RegexWork, resolve_regexes
from coordinator.machine.outcome import Work, WorkDone


def resolved(work: Work) -> WorkDone:
    """What comes of the work of a group."""
    assert isinstance(work.argument, RegexWork)
    resolution = resolve_regexes(work.argument)
    try:
        while True:
            next(resolution)
    except StopIteration as end:
        return WorkDone(work, end.value)
    except MatchesTooMuch as problem:
        return WorkDone(work, None, str(problem))
