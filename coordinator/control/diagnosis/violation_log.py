"""The bounded list of violations and notices, their counts by oracle, and their log lines."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from msgspec.structs import replace

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.control.consumer_protocol_payloads import format_partition
from coordinator.control.diagnosis.violation import LEVELS, InvolvedMember, OracleFinding, Severity, Violation
from coordinator.core import clock
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.message_text import printable

_LOG: Final = logging.getLogger("Oracles")

MAX_VIOLATIONS: Final = 1000
MAX_BYTES: Final = 2 * 1024 * 1024
"""The maximum size of all texts of the entries, plus `_BASE_BYTES` for each entry."""
_BASE_BYTES: Final = 500
REPEATED_WITHIN_MS: Final = 60_000
"""A finding that is repeated within this time of the last one, in milliseconds, is the same violation."""
MAX_LOGGED_NOTICES: Final = 10_000
"""The maximum number of notices that are remembered as logged."""
_MAX_DETAIL: Final = 1500
_MAX_MEMBERS: Final = 20
_MAX_PARTITIONS: Final = 20

ViolationListener = Callable[[Violation], None]


class ViolationLog:
    def __init__(self, metrics: BrokerMetrics, line_limit: LogLineLimit) -> None:
        self.listeners: list[ViolationListener] = []
        """Called with each violation and notice, and again with each repetition."""
        self.forgotten = 0
        """The number of entries that were dropped for later ones."""
        self.newest_seq = 0
        """The number of the latest entry."""
        self._metrics = metrics
        self._line_limit = line_limit
        self._bytes = 0
        self._by_seq: OrderedDict[int, Violation] = OrderedDict()
        self._last: dict[Hashable, tuple[int, int]] = {}
        """The newest violation of each key, and the monotonic time of its last repetition in milliseconds. The
        key without a repetition for the longest time comes first."""
        self._logged: OrderedDict[int, None] = OrderedDict()
        """Hashes of the `notice_key`s that were logged, the oldest first. They are hashed because the keys come
        from clients."""

    def add_finding(self, finding: OracleFinding) -> None:
        """Add the finding of an oracle."""
        if self.add_repetition(finding.key):
            return
        self.newest_seq += 1
        violation = _build_violation(finding, self.newest_seq, clock.wall_ms())
        self._by_seq[violation.seq] = violation
        self._bytes += _estimate_bytes(violation)
        self._last[finding.key] = violation.seq, clock.monotonic_ms()
        while len(self._by_seq) > MAX_VIOLATIONS or self._bytes > MAX_BYTES:
            self._forget_oldest()
        if finding.severity is Severity.VIOLATION:
            self._log_violation(violation)
        else:
            self._log_notice(violation, finding.notice_key)
        self._report(violation)

    def add_repetition(self, key: Hashable) -> bool:
        """Record a repetition of a recent finding with this key, and return whether there is one. If so, the
        oracle can stop: it needs no further data."""
        self._forget_past()
        seq, _ = self._last.pop(key, (0, 0))
        known = self._by_seq.get(seq)
        if known is None:
            return False
        lasting = replace(known, last_at_ms=clock.wall_ms(), times=known.times + 1)
        self._by_seq[seq] = lasting
        self._last[key] = seq, clock.monotonic_ms()
        if lasting.severity is Severity.VIOLATION:
            self._log_violation(lasting)
        self._report(lasting)
        return True

    def list_after(
        self,
        seq: int = -1,
        limit: int = 100,
        *,
        group_id: str | None = None,
        oracle: str | None = None,
        severity: Severity | None = None,
    ) -> list[Violation]:
        """Return the first `limit` entries after the number `seq`, oldest first; None means any."""
        fitting = (
            violation
            for violation in self._by_seq.values()
            if violation.seq > seq
            and group_id in (None, violation.group_id)
            and oracle in (None, violation.oracle)
            and severity in (None, violation.severity)
        )
        return [violation for violation, _ in zip(fitting, range(limit), strict=False)]

    def clear(self) -> int:
        """Remove all entries and return their number. Sequence numbers and metrics continue."""
        count = len(self._by_seq)
        self._by_seq.clear()
        self._last.clear()
        self._logged.clear()
        self._bytes = 0
        return count

    def _forget_oldest(self) -> None:
        """Drop the oldest notice, or without notices the oldest violation. Clients can cause notices at will, and
        these must not displace violations."""
        notices = (seq for seq, violation in self._by_seq.items() if violation.severity is Severity.NOTICE)
        seq = next(notices, next(iter(self._by_seq)))
        self._bytes -= _estimate_bytes(self._by_seq.pop(seq))
        self.forgotten += 1

    def _forget_past(self) -> None:
        oldest_ms = clock.monotonic_ms() - REPEATED_WITHIN_MS
        while self._last:
            key, (_, found_ms) = next(iter(self._last.items()))
            if found_ms > oldest_ms and len(self._last) <= MAX_VIOLATIONS:
                return
            del self._last[key]

    def _log_violation(self, violation: Violation) -> None:
        times = self._line_limit.admit("violation", violation.oracle, violation.group_id)
        if times:
            again = f" ({times - 1} more since the last line)" if times > 1 else ""
            group = printable(violation.group_id)
            _LOG.error("Violation in group %s, %s: %s%s", group, violation.oracle, violation.detail, again)

    def _log_notice(self, notice: Violation, notice_key: Hashable) -> None:
        key = hash(notice_key)
        if key in self._logged or not self._line_limit.admit("notice", notice_key):
            return
        self._logged[key] = None
        if len(self._logged) > MAX_LOGGED_NOTICES:
            self._logged.popitem(last=False)
        _LOG.info("Notice for group %s, %s: %s", printable(notice.group_id), notice.oracle, notice.detail)

    def _report(self, violation: Violation) -> None:
        is_violation = violation.severity is Severity.VIOLATION
        counts = self._metrics.violations if is_violation else self._metrics.notices
        counts[violation.oracle] += 1
        for listener in self.listeners:
            listener(violation)


def _build_violation(finding: OracleFinding, seq: int, at_ms: int) -> Violation:
    first = finding.partitions[0] if finding.partitions else (None, None)
    return Violation(
        seq=seq,
        at_ms=at_ms,
        last_at_ms=at_ms,
        times=1,
        oracle=finding.oracle,
        severity=finding.severity,
        level=LEVELS[finding.severity],
        group_id=finding.group_id,
        generation_id=finding.generation_id,
        topic=first[0],
        partition=first[1],
        partitions=[format_partition(place) for place in finding.partitions[:_MAX_PARTITIONS]],
        members=[
            InvolvedMember(
                member_id=name.member_id,
                group_instance_id=name.group_instance_id,
                client_id=name.client_id,
                client_host=name.client_host,
            )
            for name in finding.members[:_MAX_MEMBERS]
        ],
        detail=finding.detail[:_MAX_DETAIL],
        from_=finding.before,
        to=finding.after,
    )


def _estimate_bytes(violation: Violation) -> int:
    names = (
        len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id)
        for member in violation.members
    )
    return (
        _BASE_BYTES
        + len(violation.group_id)
        + len(violation.detail)
        + len(violation.topic or "")
        + sum(map(len, violation.partitions))
        + sum(names)
    )
