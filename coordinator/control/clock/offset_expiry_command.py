"""The command that expires the committed offsets of one group as of a later time."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from coordinator.control.clock.clock_models import OffsetExpiryResult
from coordinator.control.clock.clock_registry import ClockRegistry
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.group.classic.classic_state_machine import EMPTY
from coordinator.group.group_requests import ExpiredOffsets, ExpireOffsets
from coordinator.group.group_view import GroupView
from protocol.error_codes import ErrorCode

_RELATIVE: Final = re.compile(r"\+(.+)")


class OffsetExpiry:
    def __init__(
        self,
        actions: ActionLog,
        group_client: InternalGroupClient,
        clocks: ClockRegistry,
        removals: GroupRemovals,
    ) -> None:
        self._actions = actions
        self._group_client = group_client
        self._clocks = clocks
        self._removals = removals

    async def expire_offsets(
        self, group_id: str, at: int | str, topics: Sequence[str], actor: str | None
    ) -> OffsetExpiryResult:
        """Remove the offsets of a group that will have expired at a later time.

        Args:
            group_id: The group.
            at: A Unix time in milliseconds, or a duration after the group time, such as "+8d".
            topics: The topics to check; empty for all topics.
            actor: The name of the operator.

        Raises:
            Problem: bad-request, no-such-group, loading, refused.
        """
        self._group_client.find_partition(group_id)
        now_ms = self._clocks.group_now(group_id).wall_ms
        ahead_ms = _parse_ahead_ms(at, now_ms)
        before = self._clocks.find_group(group_id)
        if before is None:
            raise self._removals.no_such_group(group_id)
        self._actions.record_action("offsets", f"expire as of {at}", group_id, actor)
        with self._removals.attributed_to(group_id, f"expired its offsets as of {printable(str(at))}", actor):
            outcome = await self._group_client.request(
                group_id, ExpireOffsets(group_id, tuple(topics), ahead_ms), 0
            )
        assert isinstance(outcome, ExpiredOffsets)
        if outcome.error is ErrorCode.GROUP_ID_NOT_FOUND:
            raise self._removals.no_such_group(group_id)
        if outcome.error is not ErrorCode.NONE:
            detail = f"The coordinator of {printable(group_id)} answered {outcome.error.name}."
            raise Problem(
                ProblemKind.REFUSED, f"refused: {outcome.error.name}", detail, {"error": outcome.error.name}
            )
        group: Literal["kept", "deleted"] = "deleted" if outcome.is_group_deleted else "kept"
        expired = {topic: sorted(partitions) for topic, partitions in sorted(outcome.partitions.items())}
        return OffsetExpiryResult(
            expired=expired,
            group=group,
            as_of_ms=now_ms + ahead_ms,
            why_not=None if expired or outcome.is_group_deleted else _explain_nothing_expired(before),
        )


def _parse_ahead_ms(at: int | str, now_ms: int) -> int:
    if isinstance(at, int):
        ahead_ms = at - now_ms
        text = str(at)
    else:
        match = _RELATIVE.fullmatch(at.strip())
        if match is None:
            raise _invalid_at(
                f'{printable(at)!r} is not a time: write "+8d" for eight days from now, or Unix milliseconds'
            )
        ahead_ms, text = parse_duration_ms(match[1], "at"), at
    if ahead_ms < 0:
        raise _invalid_at(
            f"{printable(text)} is {-ahead_ms} ms before the time of the group: use a later time"
        )
    return ahead_ms


def _invalid_at(why: str) -> Problem:
    return Problem(ProblemKind.BAD_REQUEST, "at is invalid", f"at: {why}.", {"pointer": "/at"})


def _explain_nothing_expired(view: GroupView) -> str:
    """Return the reason why no offset of a group has expired."""
    name = printable(view.group_id)
    if view.state == EMPTY.value:
        return f"No offset of {name} is old enough: the retention starts when the group becomes empty."
    clients = ", ".join(printable(member.name.client_id) for member in view.members[:5])
    return f"{name} is {view.state}: offsets of subscribed topics do not expire while it has members ({clients})."
