"""The trace of one rebalance, built from its closed ledger entry: a root span, and a span for each time that
the group waited for a member.

If the clock of the group was moved, the waits are in another time than the root and are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry, MemberTimeline, is_clock_moved
from coordinator.group.group_types import GroupType

_NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""

Attributes: TypeAlias = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Span:
    """An operation between two Unix times."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    failure: str | None = None
    """The reason why the operation failed; None for a success."""
    children: list["Span"] = field(default_factory=list)


def build_trace(entry: LedgerEntry) -> Span:
    """Return the root span of a closed entry, with its children."""
    started_ns = entry.started_ms * _NS
    moved = entry.real is not None and is_clock_moved(entry.total_ms, entry.real)
    total_ms = entry.total_ms if not moved or entry.real is None else entry.real.total_ms
    is_broken_off = entry.result in (EntryResult.FAILED, EntryResult.OVERTAKEN)
    return Span(
        name=f"rebalance {entry.group_id} {entry.generation_id}",
        start_ns=started_ns,
        end_ns=started_ns + total_ms * _NS,
        attributes=_build_attributes(entry, moved=moved),
        failure=f"it is {entry.result.value}" if is_broken_off else None,
        children=[] if moved else list(_build_wait_spans(entry, started_ns)),
    )


def _build_attributes(entry: LedgerEntry, *, moved: bool) -> Attributes:
    attributes: dict[str, str | int | bool | None] = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": entry.group_id,
        "groupd.type": entry.type,
        "groupd.generation_id": entry.generation_id,
        "groupd.result": entry.result.value,
        "groupd.cause": entry.cause,
        "groupd.reason": entry.reason,
        "groupd.client_reason": entry.client_reason or None,
        "groupd.actor": None if entry.actor is None else entry.actor.client_id,
        "groupd.attempts": entry.attempts,
        "groupd.from_state": entry.from_state,
        "groupd.protocol_name": entry.protocol_name,
        "groupd.leader": entry.leader,
        "groupd.members_count": entry.members_count,
        "groupd.gone_count": entry.gone_count,
        "groupd.unowned_count": entry.unowned_count,
        "groupd.seq": entry.seq,
    }
    if entry.awaited_longest is not None:
        attributes["groupd.awaited_longest"] = entry.awaited_longest.client_id
        attributes["groupd.awaited_longest.because"] = entry.awaited_longest.because
    if moved:
        attributes["groupd.group_time.total_ms"] = entry.total_ms
    return {name: value for name, value in attributes.items() if value is not None}


def _build_wait_spans(entry: LedgerEntry, started_ns: int) -> Iterator[Span]:
    """Yield a span for each wait, from the start of its phase to the awaited action, or to the end of the phase."""
    is_epoch = entry.type == GroupType.CONSUMER
    if is_epoch:
        yield _build_wait_span("compute the target", started_ns, 0, entry.join_ms, {})
    for member in entry.members:
        attributes = _build_member_attributes(member)
        if is_epoch:
            end_ms = entry.total_ms if member.reached_after_ms is None else member.reached_after_ms
            yield _build_wait_span(
                f"reconcile {member.client_id}", started_ns, entry.join_ms, end_ms, attributes, member.gone
            )
            continue
        if not member.is_new:
            end_ms = entry.join_ms if member.rejoined_after_ms is None else member.rejoined_after_ms
            yield _build_wait_span(
                f"await join {member.client_id}", started_ns, 0, end_ms, attributes, member.gone
            )
        if member.gone is None and entry.result is EntryResult.STABLE:
            end_ms = entry.total_ms if member.synced_after_ms is None else member.synced_after_ms
            is_leader = member.member_id == entry.leader_id
            name = "assign (leader)" if is_leader else f"await sync {member.client_id}"
            yield _build_wait_span(name, started_ns, entry.join_ms, end_ms, attributes)


def _build_wait_span(
    name: str, started_ns: int, from_ms: int, to_ms: int, attributes: Attributes, failure: str | None = None
) -> Span:
    return Span(name, started_ns + from_ms * _NS, started_ns + max(from_ms, to_ms) * _NS, attributes, failure)


def _build_member_attributes(member: MemberTimeline) -> Attributes:
    attributes: dict[str, str | int | bool | None] = {
        "messaging.client.id": member.client_id,
        "groupd.member_id": member.member_id,
        "groupd.group_instance_id": member.group_instance_id,
        "client.address": member.client_host.removeprefix("/"),
        "groupd.is_new": member.is_new,
        "groupd.told_after_ms": member.told_after_ms,
        "groupd.owned_count": member.owned_count,
        "groupd.gained_count": member.gained_count,
        "groupd.lost_count": member.lost_count,
        "groupd.commits_refused": member.commits_refused,
        "groupd.gone": member.gone,
    }
    return {name: value for name, value in attributes.items() if value is not None}
