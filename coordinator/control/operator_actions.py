"""What people did to groups: told once to whoever keeps it. The ledger names it beside what came of it."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coordinator import clock
from coordinator.net.peer import printable

_LOG: Final = logging.getLogger("Control")
_MAX_SAID: Final = 300


class Act(Struct, frozen=True, kw_only=True):
    """Something that was done on purpose. `kind` is the room that did it (clock, fault, failover, member, offsets);
    `group_id` is None where it is about no group in particular; `by` is who, in their own words; `at_ms` is Unix
    time; `generation_id` is the one whose assignment a member does not get by it as it should."""

    kind: str
    what: str
    group_id: str | None
    by: str | None
    at_ms: int
    generation_id: int | None = None


class Acts:
    """See the top of this file."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Act], None]] = []

    def note(
        self,
        kind: str,
        what: str,
        group_id: str | None = None,
        by: str | None = None,
        generation_id: int | None = None,
        *,
        has_line: bool = False,
    ) -> None:
        """Tells of something that was just done, and writes one line of it, unless it has one."""
        act = Act(
            kind=kind, what=what, group_id=group_id, by=by, at_ms=clock.wall_ms(), generation_id=generation_id
        )
        about = "" if group_id is None else f" of group {printable(group_id)}"
        who = "" if by is None else f" by {printable(by, _MAX_SAID)}"
        if not has_line:
            _LOG.info("Control: %s%s: %s%s", kind, about, printable(what, _MAX_SAID), who)
        for listener in self.listeners:
            listener(act)
