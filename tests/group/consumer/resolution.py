"""Regular expressions, resolved as by the background work."""

from coordinator.core.outcome import Work, WorkDone
from coordinator.group.consumer.regex_resolution import MatchesTooMuch, RegexWork, resolve_regexes


def resolved(work: Work) -> WorkDone:
    """Resolve the expressions of a group, and return the result of the work."""
    assert isinstance(work.argument, RegexWork)
    resolution = resolve_regexes(work.argument)
    try:
        while True:
            next(resolution)
    except StopIteration as end:
        return WorkDone(work, end.value)
    except MatchesTooMuch as problem:
        return WorkDone(work, None, str(problem))
