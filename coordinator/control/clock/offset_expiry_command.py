"""Retention looks at one group as if it were later."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.clock.clock_state import OffsetsExpired
from coordinator.control.clock.clocks import Clocks
from coordinator.control.duration import duration_ms
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.requests import ExpireOffsets, OffsetsGone
from coordinator.group.state import EMPTY
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from protocol.errors import ErrorCode

_LATER: Final = re.compile(r"\+(.+)")


class Retention:
    """See the top of this file."""

    def __init__(self, acts: Acts, asker: GroupAsker, clocks: Clocks, removals: GroupRemovals) -> None:
        self._acts = acts
        self._asker = asker
        self._clocks = clocks
        self._removals = removals

    async def expire(
        self, group_id: str, at: int | str, topics: Sequence[str], actor: str | None
    ) -> OffsetsExpired:
        """Removes what of a group's offsets will have expired at a Unix time in milliseconds, or so much later than
        group time ("+8d"); of these topics, where some are named. Raises Problem (bad-request, no-such-group,
        loading, refused)."""
        self._asker.partition_of(group_id)
        now_ms = self._clocks.now_of(group_id).wall_ms
        ahead_ms = _ahead_ms(at, now_ms)
        before = self._clocks.view(group_id)
        if before is None:
            raise self._removals.no_such_group(group_id)
        self._acts.note("offsets", f"expire as of {at}", group_id, actor)
        with self._removals.attributed_to(group_id, f"expired its offsets as of {printable(str(at))}", actor):
            gone = await self._asker.ask(group_id, ExpireOffsets(group_id, tuple(topics), ahead_ms), 0)
        assert isinstance(gone, OffsetsGone)
        if gone.error is ErrorCode.GROUP_ID_NOT_FOUND:
            raise self._removals.no_such_group(group_id)
        if gone.error is not ErrorCode.NONE:
            detail = f"The coordinator of {printable(group_id)} answered {gone.error.name}."
            raise Problem(
                ProblemKind.REFUSED, f"refused: {gone.error.name}", detail, {"error": gone.error.name}
            )
        group: Literal["kept", "deleted"] = "deleted" if gone.is_group_deleted else "kept"
        expired = {topic: sorted(partitions) for topic, partitions in sorted(gone.partitions.items())}
        return OffsetsExpired(
            expired=expired,
            group=group,
            as_of_ms=now_ms + ahead_ms,
            why_not=None if expired or gone.is_group_deleted else _why_not(before),
        )


def _ahead_ms(at: int | str, now_ms: int) -> int:
    if isinstance(at, int):
        ahead_ms = at - now_ms
        text = str(at)
    else:
        match = _LATER.fullmatch(at.strip())
        if match is None:
            raise _wrong(
                f'{printable(at)!r} is no time: write "+8d" for eight days from now, or Unix milliseconds'
            )
        ahead_ms, text = duration_ms(match[1], "at"), at
    if ahead_ms < 0:
        raise _wrong(
            f"{printable(text)} is {-ahead_ms} ms before the time of the group, which never runs backwards"
        )
    return ahead_ms


def _wrong(why: str) -> Problem:
    return Problem(ProblemKind.BAD_REQUEST, "at is wrong", f"at: {why}.", {"pointer": "/at"})


def _why_not(view: GroupView) -> str:
    """Why nothing of a group has expired."""
    name = printable(view.group_id)
    if view.state == EMPTY.value:
        return f"No offset of {name} is that old: retention counts from when the group became empty."
    clients = ", ".join(printable(member.name.client_id) for member in view.members[:5])
    return f"{name} is {view.state}: what its members read is kept as long as they are there ({clients})."
