"""The number of an event, as somebody says it who was told it earlier, perhaps by another process."""

import re
from typing import Final

from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.stream.stream import Stream
from coordinator.net.peer import printable

_NUMBER: Final = re.compile(r"(?:([0-9a-f]{1,32})\.)?(-1|[0-9]{1,18})")


def number_after(stream: Stream, after: int | str) -> int:
    """What `after` means: a number (431), or one with the mark of its process ("5f3a9c1e.431"). Raises Problem:
    bad-request where it is neither, restarted where it is of another process than this one, as far as that can be
    told: without a mark, only as long as this process has not come as far."""
    found = _NUMBER.fullmatch(str(after).strip())
    if found is None:
        detail = f'after: {printable(str(after))!r} is no event: write 431, or "{stream.instance}.431".'
        raise Problem(ProblemKind.BAD_REQUEST, "after is wrong", detail, {"pointer": "/after"})
    number, mark = int(found[2]), found[1]
    if (mark is None and number > stream.last_seq) or mark not in (None, stream.instance):
        detail = (
            f"after: {printable(str(after))} is of another process: this one has the mark {stream.instance}, "
            f"and its last event is {stream.last_seq}. Numbers begin anew with each: begin anew with -1."
        )
        fields = {"mark": stream.instance, "seq": stream.last_seq}
        raise Problem(ProblemKind.RESTARTED, "the daemon was restarted", detail, fields)
    return number
