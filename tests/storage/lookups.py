"""A search of a log by time, all in the thread of the test."""

from storage.timestamp_lookup import LookupSteps, TimestampOffset


def run_lookup(steps: LookupSteps) -> TimestampOffset | None:
    """Run all steps of a lookup and return its result."""
    result = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        result = step()
