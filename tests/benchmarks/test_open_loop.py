"""The wait of a client at a rate that it does not choose, with a simulated server and clock."""

from collections import deque
from collections.abc import Iterable

import pytest

from benchmarks.flood import waited_ms
from benchmarks.open_loop import ANSWER_SECONDS, Plan, offer


class Served:
    """A server and the time: it answers each request after `service_s`, in order, but not while it stalls."""

    def __init__(self, service_s: float, stall: tuple[float, float] = (0.0, 0.0)) -> None:
        self.now = 100.0
        self.sends: list[tuple[float, int]] = []
        self._service_s = service_s
        self._stall = stall
        self._answers: deque[tuple[float, int]] = deque()
        self.silent_from = float("inf")

    def clock(self) -> float:
        return self.now

    def send(self, connection: int) -> None:
        self.sends.append((self.now - 100.0, connection))
        ready = max(self.now, 100.0 + self._stall[1] if self._is_stalled() else self.now) + self._service_s
        self._answers.append((ready, connection))

    def _is_stalled(self) -> bool:
        return self._stall[0] <= self.now - 100.0 < self._stall[1]

    def receive(self, seconds: float) -> Iterable[tuple[int, int]]:
        until = self.now + seconds
        if self._answers and self._answers[0][0] <= until and self._answers[0][0] - 100.0 < self.silent_from:
            self.now = max(self.now, self._answers[0][0])
            while self._answers and self._answers[0][0] <= self.now:
                yield self._answers.popleft()[1], 1
        else:
            self.now = until


def milliseconds(latencies: Iterable[float]) -> list[float]:
    return [round(latency * 1000, 3) for latency in latencies]


def test_requests_go_out_at_even_distances_over_the_connections_in_turn() -> None:
    server = Served(service_s=0.0001)
    offered = offer(Plan(1000, 0.006, 4), server, server.clock)
    assert [connection for _, connection in server.sends] == [0, 1, 2, 3, 0, 1]
    assert [round(at, 6) for at, _ in server.sends] == [0.0, 0.001, 0.002, 0.003, 0.004, 0.005]
    assert milliseconds(offered.latencies) == [0.1] * 6
    assert milliseconds(offered.late) == [0.0] * 6


def test_a_stall_is_seen_by_every_request_that_it_held_up() -> None:
    """One of a second in ten: a client that waits for each answer sees it once for each connection."""
    server = Served(service_s=0.0001, stall=(4.0, 5.0))
    offered = offer(Plan(1000, 10.0, 10), server, server.clock)
    assert len(offered.latencies) == 10_000
    held_up = [latency for latency in offered.latencies if latency > 0.001]
    assert len(held_up) == pytest.approx(1000, abs=2)
    assert waited_ms(offered.latencies, 0.5) < 1
    assert 890 < waited_ms(offered.latencies, 0.99) < 910
    assert 990 < offered.latencies[-1] * 1000 < 1001


def test_what_was_sent_late_counts_from_its_plan() -> None:
    """The load generator itself is held up: 20 ms of one send."""

    class Slow(Served):
        def send(self, connection: int) -> None:
            super().send(connection)
            if len(self.sends) == 3:
                self.now += 0.020

    server = Slow(service_s=0.0001)
    offered = offer(Plan(1000, 0.030, 5), server, server.clock)
    assert len(server.sends) == 30
    assert max(milliseconds(offered.late)) == pytest.approx(19.0, abs=0.2)
    late = [latency for latency in offered.latencies if latency > 0.001]
    assert len(late) >= 18


def test_requests_in_flight_on_one_connection_are_told_apart() -> None:
    server = Served(service_s=0.0025)
    offered = offer(Plan(1000, 0.010, 1), server, server.clock)
    assert milliseconds(offered.latencies) == [2.5] * 10


def test_answers_that_never_come_are_an_error() -> None:
    server = Served(service_s=0.0001)
    server.silent_from = 0.005
    with pytest.raises(TimeoutError, match="5 requests were never answered"):
        offer(Plan(1000, 0.010, 2), server, server.clock)
    assert server.now - 100.0 < 2 * ANSWER_SECONDS + 1


def test_the_plan_says_how_many() -> None:
    assert Plan(2000, 10.0, 50).requests == 20_000
    assert Plan(2000, 10.0, 50).at(50) == 0.025
