"""Times and reasons of removals of groups, for explanations, waits and errors about a removed group."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from msgspec import Struct

from coordinator.control.problem import Problem, ProblemKind
from coordinator.core import clock
from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import format_seconds, printable
from coordinator.core.outcome import Now
from coordinator.core.wire_name import wire_name
from coordinator.group.group_event_types import GroupDeleted, GroupEvent
from coordinator.group.member_text import format_member_client, printable_name

MAX_REMOVALS: Final = 10_000
"""The maximum number of remembered removals. The oldest is dropped first."""
_RETENTION: Final = "retention"
_OPERATOR: Final = "the control API"


@wire_name("RemovalReason")
class RemovalReason(StrEnum):
    """The reason for the removal of a group."""

    OFFSETS_EXPIRED = "offsets expired"
    NO_OFFSETS = "no offsets"
    DELETED = "deleted"
    NAMESPACE_RESET = "namespace reset"


@wire_name("GroupRemoval")
class GroupRemoval(Struct, frozen=True, kw_only=True):
    """The removal of a group. `at_ms` is Unix time, `group_time_ms` the time of the group's clock at the removal.
    `by` is the client or operator that requested the removal, null for a retention check. `detail` is a printable
    clause with the reason."""

    group_id: str
    at_ms: int
    group_time_ms: int
    reason: RemovalReason
    by: str | None
    detail: str


class GroupRemovals:
    """Remembers the last removal of each group. A namespace keeps it over a reset."""

    def __init__(self) -> None:
        self._removals: OrderedDict[str, GroupRemoval] = OrderedDict()
        self._operations: dict[str | None, tuple[str, str]] = {}
        """The operation in progress on a group, or (None) on all groups, and its operator."""

    def find(self, group_id: str) -> GroupRemoval | None:
        """Return the last removal of a group, even if the group exists again."""
        return self._removals.get(group_id)

    def newest(self, prefix: str, limit: int) -> list[GroupRemoval]:
        """Return at most `limit` removals of groups whose id begins with `prefix`, the newest first."""
        found: list[GroupRemoval] = []
        for removal in reversed(self._removals.values()):
            if len(found) == limit:
                break
            if removal.group_id.startswith(prefix):
                found.append(removal)
        return found

    def no_such_group(self, group_id: str) -> Problem:
        """Return the Problem (no-such-group) for a group that does not exist, with its removal."""
        title = f"Group {printable(group_id)} does not exist"
        removal = self.find(group_id)
        fields = {} if removal is None else {"removed": removal_value(removal)}
        return Problem(ProblemKind.NO_SUCH_GROUP, title, f"{title}: {why_absent(removal)}.", fields)

    @contextmanager
    def attributed_to(self, group_id: str | None, operation: str, by: str | None) -> Iterator[None]:
        """Attribute removals within the block to an operator.

        Args:
            group_id: the group; None: all groups.
            operation: the operation as the end of a clause ("advanced its clock by 11 min").
            by: the operator's name, if known.
        """
        self._operations[group_id] = (operation, by or _OPERATOR)
        try:
            yield
        finally:
            self._operations.pop(group_id, None)

    def on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        """Remember the removal of a group. This is an `EventListener`."""
        if type(event) is not GroupDeleted:
            return
        operation = self._operations.get(event.group_id)
        if event.reason != _RETENTION:
            client = "" if event.member is None else format_member_client(printable_name(event.member))
            by = client if operation is None else printable(operation[1])
            detail = f"{by} deleted it (DeleteGroups)"
            self._add(event.group_id, now.wall_ms, RemovalReason.DELETED, by, detail)
            return
        if event.expired_offsets:
            reason = RemovalReason.OFFSETS_EXPIRED
            detail = "it had no members and its last committed offsets expired (offsets.retention.minutes)"
        else:
            reason = RemovalReason.NO_OFFSETS
            detail = (
                "it had no members and no committed offsets at a retention check "
                "(offsets.retention.check.interval.ms)"
            )
        operation = operation or self._operations.get(None)
        if operation is None:
            self._add(event.group_id, now.wall_ms, reason, None, detail)
            return
        by = printable(operation[1])
        self._add(event.group_id, now.wall_ms, reason, by, f"{detail}, when {by} {operation[0]}")

    def on_namespace_reset(self, name: str, group_ids: Iterable[str], by: str | None) -> None:
        """Record that a reset of a namespace removes these groups. `by` is the operator's name, if known."""
        operator = printable(by or _OPERATOR)
        detail = f"{operator} reset the namespace {printable(name)}"
        for group_id in group_ids:
            self._add(group_id, clock.wall_ms(), RemovalReason.NAMESPACE_RESET, operator, detail)

    def _add(
        self, group_id: str, group_time_ms: int, reason: RemovalReason, by: str | None, detail: str
    ) -> None:
        self._removals.pop(group_id, None)
        self._removals[group_id] = GroupRemoval(
            group_id=group_id,
            at_ms=clock.wall_ms(),
            group_time_ms=group_time_ms,
            reason=reason,
            by=by,
            detail=detail,
        )
        if len(self._removals) > MAX_REMOVALS:
            self._removals.popitem(last=False)


def why_absent(removal: GroupRemoval | None) -> str:
    """Return the end of a sentence, without its full stop, that explains why a group does not exist. It contains
    the time and the reason of the removal. For None, it states that groupd has no record of the group."""
    if removal is None:
        return "since its start groupd has seen no member and no committed offset of it"
    at = format_time_of_day(removal.at_ms)
    ago = format_seconds(max(0, clock.wall_ms() - removal.at_ms))
    return f"it was removed at {at}, {ago} ago: {removal.detail}"


def removal_value(removal: GroupRemoval) -> dict[str, object]:
    """Return a removal as JSON values, for the fields of a Problem."""
    return {name: getattr(removal, name) for name in removal.__struct_fields__}
