"""The life of a few groups: a healthy one and several unhealthy ones.

billing       two healthy members
shipping      restarts one member after the other, and once all of them
search        three static members that are too slow; one is restarted without anyone noticing
audit         seeks back in the middle and reads again
fraud         stops at a poison message in one partition, and continues to commit
heartbeats    commits offsets that hardly ever change four times a second
returns       uses the consumer protocol (KIP-848); a second member joins, and a third leaves again
moving        a member of the consumer protocol replaces one of the classic protocol
nightly       joins, catches up and leaves; later an operator resets its offsets
"""

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.sample.member import Member, Temper, commit, reset
from tests.sample.producer import Production

TOPICS: Final = {"orders": 6, "payments": 3, "pings": 1}
PER_SECOND: Final = {"orders": 300.0, "payments": 60.0, "pings": 0.5}
SHIFTS: Final = 7


def once(due_s: float, deed: Callable[[Consumer], None]) -> Callable[[Consumer, float], None]:
    """A whim that comes over a consumer a single time."""
    is_done = False

    def whim(consumer: Consumer, seconds: float) -> None:
        nonlocal is_done
        if not is_done and seconds >= due_s and consumer.assignment():
            deed(consumer)
            is_done = True

    return whim


def go_back(consumer: Consumer) -> None:
    """Starts over from half of where it is."""
    targets = [
        TopicPartition(found.topic, found.partition, found.offset // 2)
        for found in consumer.position(consumer.assignment())
        if found.offset > 0
    ]
    for target in targets:
        consumer.seek(target)
    if targets:
        consumer.commit(offsets=targets, asynchronous=False)


def get_stuck(consumer: Consumer) -> None:
    """Stop reading the first partition."""
    commit(consumer)
    consumer.pause([min(consumer.assignment(), key=lambda found: (found.topic, found.partition))])


class Life:
    """All groups over `seconds`; `snapshot` is called while they are still at work."""

    def __init__(self, bootstrap: str, seconds: float, snapshot: Callable[[], None]) -> None:
        self._bootstrap = bootstrap
        self._seconds = seconds
        self._snapshot = snapshot
        self._members: list[Member] = []
        self._began = time.monotonic()

    def _join(
        self,
        group: str,
        topic: str,
        name: str,
        temper: Temper,
        instance_id: str | None = None,
        protocol: str = "classic",
    ) -> Member:
        member = Member(self._bootstrap, group, [topic], name, temper, instance_id, protocol=protocol)
        self._members.append(member)
        return member

    def _leave(self, member: Member) -> None:
        self._members.remove(member)
        member.stop()

    def _until(self, part: float) -> None:
        time.sleep(max(0.0, self._began + part * self._seconds - time.monotonic()))

    def live(self) -> None:
        """From beginning to end."""
        production = Production(self._bootstrap, PER_SECOND)
        try:
            self._live()
            self._snapshot()
        finally:
            production.stop()
            for member in self._members:
                member.stop()

    def _live(self) -> None:
        calm, slow = Temper(), Temper(rate=20)
        self._join("billing", "orders", "billing-1", calm)
        self._join("audit", "orders", "audit", Temper(whim=once(0.45 * self._seconds, go_back)))
        self._join(
            "fraud", "payments", "fraud", Temper(commit_s=0.5, whim=once(0.3 * self._seconds, get_stuck))
        )
        self._join("heartbeats", "pings", "heartbeats", Temper(commit_s=0.25))
        static = [self._join("search", "orders", f"search-{n}", slow, f"search-{n}") for n in range(3)]
        nightly = self._join("nightly", "payments", "nightly", calm)
        self._join("returns", "orders", "returns-1", calm, protocol="consumer")
        moving = self._join("moving", "payments", "moving-1", calm)
        shift = [self._join("shipping", "orders", "shipping-0", calm)]
        self._until(0.15)
        self._join("billing", "orders", "billing-2", calm)
        for n in range(1, SHIFTS):
            self._until(0.15 + 0.55 * n / SHIFTS)
            shift.append(self._join("shipping", "orders", f"shipping-{n}", calm))
            if len(shift) > 2:
                self._leave(shift.pop(0))
            if n == 2:
                self._leave(nightly)
                self._join("returns", "orders", "returns-2", calm, protocol="consumer")
                passing = self._join("returns", "orders", "returns-3", calm, protocol="consumer")
            if n == 3:
                self._join("moving", "payments", "moving-2", calm, protocol="consumer")
            if n == 5:
                self._leave(passing)
                self._leave(moving)
            if n == 4:
                self._leave(static[1])
                self._join("search", "orders", "search-1", slow, "search-1")
        self._until(0.75)
        for member in shift:
            self._leave(member)
        reset(self._bootstrap, "nightly", "payments", [0] * TOPICS["payments"])
        self._until(0.85)
        self._join("shipping", "orders", f"shipping-{SHIFTS}", calm)
        self._until(1.0)
