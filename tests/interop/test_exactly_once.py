"""Records go through a processor exactly once, though it and the broker are killed again and again."""

import signal
import sys
from collections import Counter

import pytest

from tests.interop.broker import Broker
from tests.interop.clients.processor import transform
from tests.interop.member import Board, Member
from tests.interop.read_to_end import COMMITTED, UNCOMMITTED, read_to_end
from tests.interop.requirement import lacking

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
PARTITIONS = 2
RECORDS = 10_000
KILLS = (
    ("processor", "produced"),
    ("broker", "offsets"),
    ("processor", "offsets"),
    ("broker", "produced"),
    ("processor", "committing"),
    ("processor", "produced"),
    ("broker", "committing"),
    ("processor", "committing"),
)
"""Who is killed, after each thousand of records, and at which step of a transaction; a commit is not held."""


class Run:
    """The processor of this moment; as many as die have a successor."""

    def __init__(self, broker: Broker, board: Board, name: str) -> None:
        """Starts the first."""
        self._broker, self._board = broker, board
        self._command = [
            *(sys.executable, "-m", "tests.interop.clients.processor"),
            *(broker.bootstrap, name, name, f"{name}-output"),
        ]
        self._kills = 0
        self._survived = 0
        self._start()

    def _hold(self) -> list[str]:
        _, step = KILLS[self._kills] if self._kills < len(KILLS) else ("", "never")
        return [str(1000 * (self._kills + 1)), step]

    def _start(self) -> None:
        name = f"processor-{len(self._board.members) + 1}"
        self.processor = Member(self._board, name, [*self._command, *self._hold()])

    def kill(self) -> None:
        """Kill the next process at its time."""
        who, _ = KILLS[self._kills]
        processor = self.processor
        self._board.wait(f"the turn of the {who}", lambda: len(processor.of("held")) > self._survived)
        self._kills += 1
        if who == "processor":
            processor.kill()
            self._survived = 0
            self._start()
        else:
            self._survived += 1
            processor.say(" ".join(["hold", *self._hold()]))
            self._broker.restart(signal.SIGKILL)
            processor.say("go")


def test_every_record_exactly_once(mortal_broker: Broker, board: Board, topic: str) -> None:
    """Consume, transform, produce: five processors and three brokers die by SIGKILL, without an effect on
    results."""
    broker = mortal_broker
    if not broker.can_restart:
        lacking("GROUPD_TEST_RESTART names no program that restarts this broker")
    board.broker_report = broker.report
    for name in (topic, f"{topic}-output"):
        broker.create_topic(name, PARTITIONS)
    broker.produce(topic, PARTITIONS, RECORDS // PARTITIONS)
    run = Run(broker, board, topic)
    for _ in KILLS:
        run.kill()
    last = run.processor
    board.wait("all records", lambda: any(event["count"] == RECORDS for event in last.of("committed")))
    written = Counter(read_to_end(broker, f"{topic}-output", COMMITTED))
    expected = Counter(
        transform(f"{topic}-{partition}-{number}".encode()).decode()
        for partition in range(PARTITIONS)
        for number in range(RECORDS // PARTITIONS)
    )
    assert not expected - written, f"{(expected - written).total()} records were lost"
    assert not written - expected, f"{(written - expected).total()} records came more than once"
    # Three processors at least died amid a transaction.
    assert len(read_to_end(broker, f"{topic}-output", UNCOMMITTED)) > RECORDS
