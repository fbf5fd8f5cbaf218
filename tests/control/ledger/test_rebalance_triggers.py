"""The silence of the actor of a rebalance is measured at its begin, even if it is reported later."""

import pytest

from coordinator.control.ledger.rebalance_triggers import TriggerBuffer
from coordinator.core import clock
from coordinator.group.event_details import MemberName
from coordinator.group.group_event_types import MemberExpired

SESSION_MS, HELD_MS = 6_000, 40
ALICE = MemberName("alice-1", None, "alice", "/127.0.0.1")


class ClosedAsLastHeard:
    """A connection that closed at the time of its member's last request."""

    def __init__(self, heard_at_ms: int, now_ms: int) -> None:
        self._ago_ms = now_ms - heard_at_ms

    def silent_ms(self, connection_id: int) -> int | None:
        return self._ago_ms

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        return self._ago_ms


def test_a_loop_that_was_held_up_closes_no_connection_before_its_member_was_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = clock.now()
    told_at_ms = turn.monotonic_ms + HELD_MS
    monkeypatch.setattr(clock, "monotonic_ms", lambda: told_at_ms)
    kept = TriggerBuffer()
    kept.add(
        MemberExpired("g", 1, ALICE, False, is_new=False, silent_ms=SESSION_MS, timeout_ms=SESSION_MS),
        turn,
        1,
    )
    connections = ClosedAsLastHeard(turn.monotonic_ms - SESSION_MS, told_at_ms)
    real = kept.find_actor_silence("g", ALICE, turn, 1, connections).real
    assert real.last_heard_ms_ago == real.connection_closed_ms_ago == SESSION_MS
