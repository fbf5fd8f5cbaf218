"""The number of an event, as somebody says it who was told it earlier, perhaps by another process."""

import re
from typing import Final, NamedTuple

from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.stream.stream import Stream
from coordinator.net.peer import printable

_NUMBER: Final = re.compile(r"(?:([0-9a-f]{1,32})\.)?(-1|[0-9]{1,18})")


class EventNumber(NamedTuple):
    """A number, and the mark of the process whose number it is; None where nobody says."""

    number: int
    mark: str | None


def event_number(said: str) -> EventNumber | None:
    """What somebody says: 431, or "5f3a9c1e.431" with the mark of its process; None where it is neither."""
    found = _NUMBER.fullmatch(said.strip())
    return None if found is None else EventNumber(int(found[2]), found[1])


def number_after(stream: Stream, after: int | str, last: int | None = None) -> int:
    """What `after` means here. In: the last number that there is, None for that of the last event. Raises Problem:
    bad-request where it is no number, restarted where it is of another process than this one, as far as that can
    be told: without a mark, only as long as this process has not come as far."""
    found = event_number(str(after))
    if found is None:
        detail = f'after: {printable(str(after))!r} is no event: write 431, or "{stream.instance}.431".'
        raise Problem(ProblemKind.BAD_REQUEST, "after is wrong", detail, {"pointer": "/after"})
    if last is None:
        last = stream.last_seq
    if (found.mark is None and found.number > last) or found.mark not in (None, stream.instance):
        detail = (
            f"after: {printable(str(after))} is from before a restart of the daemon or a reset of the namespace. "
            f"Event numbers began anew then, with the mark {stream.instance}, and have come to {last}. "
            "Start again from -1."
        )
        fields = {"mark": stream.instance, "seq": last}
        raise Problem(ProblemKind.RESTARTED, "event numbers began anew", detail, fields)
    return found.number
