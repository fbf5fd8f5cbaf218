"""What happens in groups, as Server-Sent Events: `id` is the number to go on from, `event` the kind, `data` JSON.

Source: the WHATWG's HTML standard, "Server-sent events".
"""

import re
from typing import Final

from msgspec import Struct

from coordinator.control.control import Control
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.stream.stream import Following, StreamEvent
from coordinator.net.peer import printable
from coordinator.server.log_lines import LINES, SILENT

KINDS: Final = frozenset(kind.__name__ for kind in LINES if kind not in SILENT)
"""What may be followed."""
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One group, or all; kinds with commas between them, or all; from which number on, where the header
    Last-Event-ID does not say it."""

    group: str | None = None
    kind: str = ""
    after: int | None = None


def followed(control: Control, query: StreamQuery, last_event_id: str | None) -> Following:
    """What GET /stream sends, to be used as a context. Raises Problem (bad-request) for a kind that there is not,
    and a Last-Event-ID that is no number."""
    kinds = frozenset(filter(None, (word.strip() for word in query.kind.split(","))))
    unknown = sorted(kinds - KINDS)
    if unknown:
        raise _refused("kind", f"there is no kind of event {printable(unknown[0])!r}")
    after = query.after
    if last_event_id:
        if _NUMBER.fullmatch(last_event_id) is None:
            raise _refused("Last-Event-ID", f"{printable(last_event_id)!r} is no number")
        after = int(last_event_id)
    return control.stream.follow(query.group, kinds, after)


def sent(event: StreamEvent) -> bytes:
    """An event as it is sent; its JSON has no end of line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), event.data)


def _refused(field: str, why: str) -> Problem:
    return Problem(ProblemKind.BAD_REQUEST, f"{field} is wrong", f"{field}: {why}.", {"pointer": f"/{field}"})
