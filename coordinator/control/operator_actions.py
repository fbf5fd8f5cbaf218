"""Operator actions on groups. The ledger lists them beside their effects."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coordinator.core import clock
from coordinator.core.message_text import printable

_LOG: Final = logging.getLogger("Control")
_MAX_TEXT: Final = 300


class OperatorAction(Struct, frozen=True, kw_only=True):
    """A deliberate action on groups.

    `kind` is the part of the control plane (clock, fault, failover, member, offsets). `group_id` is None for
    an action on no single group. `by` is the name that the operator gave. `at_ms` is Unix time.
    `generation_id` is the generation whose assignment does not reach a member because of the action.
    """

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
        """Record a completed action for the listeners. Log one line, unless `is_logged` says that the log has
        one."""
        action = OperatorAction(
            kind=kind, what=what, group_id=group_id, by=by, at_ms=clock.wall_ms(), generation_id=generation_id
        )
        about = "" if group_id is None else f" of group {printable(group_id)}"
        who = "" if by is None else f" by {printable(by, _MAX_TEXT)}"
        if not is_logged:
            _LOG.info("Control: %s%s: %s%s", kind, about, printable(what, _MAX_TEXT), who)
        for listener in self.listeners:
            listener(action)
