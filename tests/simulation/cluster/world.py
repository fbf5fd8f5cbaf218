"""Time, three daemons, their clients, and a link to the engine that loses and delays messages.

One `random.Random(seed)` decides everything. A paused daemon does nothing. Its pending messages arrive in any order
when it resumes, as timers, sockets and clients race in a process after a pause.
"""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.cluster.cluster_session import GrantLease, RenewLease, RevokeLease
from coordinator.cluster.key_value_store import (
    KeyValueStoreError,
    ReadRange,
    StoreTransaction,
    StoreUnavailable,
    find_prefix_end,
)
from tests.cluster.model_map import ModelMap
from tests.simulation.cluster.daemon import KEYS, PARTITIONS, TOPIC, Ask, Daemon, Rules, values_of
from tests.simulation.cluster.history import Operation, check

NODES = 3
DEADLINE_MS = 500
TURN_MS = 50
QUIET_MS = 12_000
"""Longer than the latest request, a remaining lease and a claim together."""
BROKERS = KEYS.broker(0)[:-1]


class World:
    """One run."""

    def __init__(self, seed: int, rules: Rules | None = None) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.map = ModelMap()
        self.operations: list[Operation] = []
        self.seen: set[str] = set()
        """The names of the kinds of events that happened."""
        self.is_quiet = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._written = 0
        self._paused: dict[int, list[Callable[[], None]]] = {}
        self._cut: set[int] = set()
        self.daemons = [Daemon(node, rules or Rules(), self._send) for node in range(1, NODES + 1)]
        for daemon in self.daemons:
            self._turn(daemon)

    def run(self, for_ms: int) -> None:
        """Play `for_ms` with faults, then a quiet phase, then the final checks. Raises Broken."""
        self.at(0, self._client)
        self.at(0, self._fault)
        self._until(for_ms)
        self.is_quiet = True
        self._cut.clear()
        for node in list(self._paused):
            self._go_on(node)
        self._until(for_ms + QUIET_MS)
        owned = [
            partition
            for daemon in self.daemons
            for partition, held in daemon.held.items()
            if held.values is not None
        ]
        assert sorted(owned) == list(range(PARTITIONS)), f"owned in the end: {owned}"
        check(self.operations, {partition: self._log(partition) for partition in range(PARTITIONS)})

    def at(self, delay_ms: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._number, what))

    def _until(self, end_ms: float) -> None:
        while self._queue and self._queue[0][0] < end_ms:
            self.now_ms, _, what = heapq.heappop(self._queue)
            self.map.passed(int(self.now_ms))
            what()

    def _log(self, partition: int) -> list[bytes]:
        return values_of(self.map.read(ReadRange(*KEYS.log_range(TOPIC, partition))))

    def _at_daemon(self, daemon: Daemon, what: Callable[[], None]) -> None:
        if daemon.node_id in self._paused:
            self._paused[daemon.node_id].append(what)
        else:
            what()

    def _turn(self, daemon: Daemon) -> None:
        if daemon.node_id not in self._paused:
            live = {
                int(entry.value)
                for entry in self.map.read(ReadRange(BROKERS, find_prefix_end(BROKERS))).entries
            }
            daemon.turn(int(self.now_ms), live)
        self.at(TURN_MS, lambda: self._turn(daemon))

    # The link to the engine.

    def _send(self, daemon: Daemon, ask: Ask) -> None:
        answered = [False]

        def answer(value: Any) -> None:
            if not answered[0]:
                answered[0] = True
                self._at_daemon(daemon, lambda: ask.then(value, int(self.now_ms)))

        def arrive() -> None:
            value = self._do(ask.request)
            if self._is_lost(daemon):
                self.seen.add("answer lost")
            else:
                self.at(self._delay(), lambda: answer(value))

        if self._is_lost(daemon):
            self.seen.add("request lost")
        elif not self.is_quiet and self.random.random() < 0.04:
            self.seen.add("request late")
            self.at(self.random.uniform(DEADLINE_MS, 4_000), arrive)
        else:
            self.at(self._delay(), arrive)
        self.at(DEADLINE_MS, lambda: answer(StoreUnavailable("no answer")))

    def _do(self, request: Any) -> Any:
        try:
            if isinstance(request, StoreTransaction):
                return self.map.transact(request)
            if isinstance(request, ReadRange):
                return self.map.read(request)
            if isinstance(request, GrantLease):
                return self.map.grant(request.ttl_ms, int(self.now_ms))
            if isinstance(request, RenewLease):
                self.map.keep_alive(request.lease, int(self.now_ms))
                return None
            assert isinstance(request, RevokeLease), request
            self.map.revoke(request.lease)
            return None
        except KeyValueStoreError as error:
            return error

    def _is_lost(self, daemon: Daemon) -> bool:
        return daemon.node_id in self._cut or (not self.is_quiet and self.random.random() < 0.03)

    def _delay(self) -> float:
        return self.random.uniform(0.5, 5) if self.random.random() < 0.9 else self.random.uniform(5, 400)

    # Clients send requests to any daemon that they know.

    def _client(self) -> None:
        if self.is_quiet:
            return
        self.at(self.random.expovariate(1 / 15), self._client)
        daemon = self.random.choice(self.daemons)
        partition = self.random.randrange(PARTITIONS)
        operation = Operation(partition, self.random.random() < 0.5, self.now_ms)
        begin = self._commit if operation.is_write else self._fetch
        # A paused daemon gets its pending messages when it resumes.
        self.at(
            self.random.uniform(0.1, 2), lambda: self._at_daemon(daemon, lambda: begin(daemon, operation))
        )

    def _commit(self, daemon: Daemon, operation: Operation) -> None:
        self._written += 1
        operation.value = b"%08d" % self._written
        if daemon.commit(
            operation.partition, operation.value, lambda is_done: self._ended(operation, is_done)
        ):
            self.operations.append(operation)

    def _fetch(self, daemon: Daemon, operation: Operation) -> None:
        def answer(value: bytes | None) -> None:
            operation.value = value or b""
            self._ended(operation, value is not None)

        self.operations.append(operation)
        if not daemon.fetch(operation.partition, answer):
            self.operations.remove(operation)

    def _ended(self, operation: Operation, is_done: bool) -> None:
        if is_done:
            operation.ended_ms = self.now_ms

    # Faults.

    def _fault(self) -> None:
        if self.is_quiet:
            return
        self.at(self.random.expovariate(1 / 500), self._fault)
        daemon = self.random.choice(self.daemons)
        node, for_ms = daemon.node_id, self.random.choice([100, 700, 2_500, 5_000])
        kind = self.random.choice(["pause", "cut", "reload", "reload", "move", "lease"])
        self.seen.add(kind)
        if kind == "pause" and node not in self._paused:
            self._paused[node] = []
            self.at(for_ms, lambda: self._go_on(node))
        elif kind == "cut":
            self._cut.add(node)
            self.at(for_ms, lambda: self._cut.discard(node))
        elif kind == "lease":
            self.map.revoke(daemon.session.lease)
        elif daemon.held and node not in self._paused:
            partition = self.random.choice(sorted(daemon.held))
            (daemon.reload if kind == "reload" else daemon.give_back)(partition)

    def _go_on(self, node: int) -> None:
        waiting = self._paused.pop(node, [])
        self.random.shuffle(waiting)
        for what in waiting:
            what()
