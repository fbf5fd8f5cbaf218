"""What people did to groups: told once to whoever keeps it. The ledger names it beside what came of it."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coordinator.core import clock
from coordinator.core.message_text import printable

_LOG: Final = logging.getLogger("Control")
_MAX_TEXT: Final = 300


class OperatorAction(Struct, frozen=True, kw_only=True):
    """Something that was done on purpose. `kind` is the part of the control plane that did it (clock, fault,
    failover, member, offsets); `group_id` is None where it is about no group in particular; `by` is who, in their
    own words; `at_ms` is Unix time; `generation_id` is the one whose assignment a member does not get by it as it
    should."""

    kind: str
    what: str
    group_id: str | None
    by: str | None
    at_ms: int
    generation_id: int | None = None


class ActionLog:
    def __init__(self) -> None:
        self.listeners: list[Callable[[OperatorAction], None]] = []

    def record_action(
        self,
        kind: str,
        what: str,
        group_id: str | None = None,
        by: str | None = None,
        generation_id: int | None = None,
        *,
        is_logged: bool = False,
    ) -> None:
        """Tells of something that was just done, and writes one line of it, unless it has one."""
        action = OperatorAction(
            kind=kind, what=what, group_id=group_id, by=by, at_ms=clock.wall_ms(), generation_id=generation_id
        )
        about = "" if group_id is None else f" of group {printable(group_id)}"
        who = "" if by is None else f" by {printable(by, _MAX_TEXT)}"
        if not is_logged:
            _LOG.info("Control: %s%s: %s%s", kind, about, printable(what, _MAX_TEXT), who)
        for listener in self.listeners:
            listener(action)
