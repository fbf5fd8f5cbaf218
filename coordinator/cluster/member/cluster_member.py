"""One daemon as a member of a cluster: what it owns, and how it comes to own it and gives it up.

Every daemon looks at the same table and computes the same placement. What is placed here and nobody owns is
claimed; what is owned here and placed elsewhere is given back, one partition at a time, once the other broker has
lived for a while. A session that ends takes everything along at once.

Coordinators may be anywhere. A partition of a topic whose records the engine has goes to the first of its replicas
that lives, and is claimed only while that topic is there.

A partition that is doubted (an append of it failed, or its machine contradicted itself) is taken anew: with a new
token, if it is still owned.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from coordinator import clock
from coordinator.cluster.append import Partition
from coordinator.cluster.claims import Claim, NotOwned, Owned, release
from coordinator.cluster.engine.engine import (
    ABSENT,
    Changes,
    CreatedAt,
    Delete,
    Engine,
    EngineError,
    Entry,
    NoSpace,
    Outcome,
    Page,
    Put,
    Read,
    Transaction,
    Unavailable,
    WrittenAt,
)
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.session_keeper import SessionKeeper
from coordinator.cluster.member.table import KINDS, Table
from coordinator.cluster.member.watching import keep
from coordinator.cluster.placement import place, place_replicas
from coordinator.cluster.session import Began, Ended, Event, Session

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.1
_FULL_RETRY_S: Final = 1.0
_SWEEP_S: Final = 0.5
_HANDOVER_S: Final = 2.0


class Cause(StrEnum):
    """Why a daemon owns a partition, or does not any more."""

    CLAIMED = "claimed"
    RETAKEN = "retaken"
    MOVED = "moved"
    DOUBTED = "doubted"
    SESSION_ENDED = "session-ended"
    SHUTDOWN = "shutdown"
    DELETED = "deleted"


class Ownings(NamedTuple):
    """Who is told what a daemon owns. All in the event loop's thread, and at once."""

    gained: Callable[[Partition, Owned, Cause], None]
    lost: Callable[[Partition, Cause], None]
    """Whoever waits there is to be told before anything else happens."""


class Replicated(NamedTuple):
    """A topic whose records the engine has."""

    replicas: Sequence[Sequence[int]]
    """By partition: who may own it, the one first that should."""
    is_there: CreatedAt
    """Holds while the engine has this topic, and not another one of that name."""


class Member:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        node_id: int,
        registration: bytes,
        session_timeout_ms: int,
        move_delay_ms: int,
        topics: Mapping[str, int],
        replicated: Callable[[], Mapping[str, Replicated]],
        ownings: Ownings,
        made: Entry | None,
    ) -> None:
        """In: how many partitions each topic of coordinators has; what gives the other topics that are owned in the
        cluster, as they are now; the key that the cluster was made with, if that is looked at."""
        self.node_id = node_id
        self.table = Table(keys)
        self.owned: dict[Partition, Owned] = {}
        self.moves: dict[Cause, int] = dict.fromkeys(Cause, 0)
        self.keeper = SessionKeeper(
            engine, Session(keys, node_id, registration, session_timeout_ms, made), self._told
        )
        self._engine = engine
        self._keys = keys
        self._move_delay_ms = move_delay_ms
        self._topics = dict(topics)
        self._replicated = replicated
        self._there: Mapping[str, Replicated] = {}
        """As they were at the last look. A claim for one that is gone is refused by the engine."""
        self._ownings = ownings
        self._busy: dict[Partition, asyncio.Task[None]] = {}
        """Partitions that are being claimed or given back."""
        self._doubted: dict[Partition, int] = {}
        """Tokens of partitions that were doubted before their claim had ended."""
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[int, tuple[int, int]] = {}
        """Of each broker its epoch, and since when it has been seen."""
        self._is_known: set[str] = set()
        self._is_draining = False
        self._has_looked = False
        """Whether it has looked for what is placed here, with a session."""
        self._moving: Partition | None = None
        self._changed = asyncio.Event()
        self._seen_anew = asyncio.Event()

    def start(self) -> None:
        """Begins the session, and to own."""
        self.keeper.start()
        loop = asyncio.get_running_loop()
        for kind in KINDS:
            begin, end = self._keys.all_of(kind)
            reader = keep(self._engine, begin, end, partial(self._read, kind), self._watched)
            self._tasks.append(loop.create_task(reader))
        self._tasks.append(loop.create_task(self._run()))

    def coordinate(self, topic: str, partitions: int) -> None:
        """From now on the partitions of one more topic are owned."""
        self._topics[topic] = partitions
        self.look_again()

    def forget(self, topic: str) -> None:
        """A topic is gone, and with it who owns its partitions."""
        for partition in [each for each in self.owned if each.topic == topic]:
            self._lose(partition, Cause.DELETED)

    @property
    def is_settled(self) -> bool:
        """Whether everything is known, and nothing is to be claimed that is placed here."""
        return len(self._is_known) == len(KINDS) and self._has_looked and not self._busy

    # What is seen

    def _read(self, kind: str, entries: Sequence[Entry]) -> None:
        table = self.table
        if kind == "brokers":
            table.brokers, table.incarnations = {}, {}
        elif kind == "owner":
            table.owners = {}
        elif kind == "epoch":
            table.epochs, table.unclaimable = {}, set()
        else:
            table.pins, table.holds = {}, {}
        for entry in entries:
            table.put(entry)
        self._is_known.add(kind)
        self.look_again()

    def _watched(self, changes: Changes) -> None:
        self.table.changed(changes)
        self.look_again()

    def look_again(self) -> None:
        """What is to be owned may be something else."""
        self._changed.set()
        self._seen_anew.set()

    def _told(self, event: Event) -> None:
        if isinstance(event, Began):
            _LOG.info("Session %x of broker %d began", event.lease, self.node_id)
            self.look_again()
        elif isinstance(event, Ended):
            if not self._is_draining:
                _LOG.warning("The session of broker %d ended: %s", self.node_id, event.reason)
            for task in self._busy.values():
                task.cancel()
            self._busy.clear()
            self._doubted.clear()
            cause = Cause.SHUTDOWN if self._is_draining else Cause.SESSION_ENDED
            for partition in list(self.owned):
                self._lose(partition, cause)
            self.look_again()

    # Owning

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                self._reconcile()
            except Exception as problem:  # noqa: BLE001 - the next look may do better
                _LOG.error("Placing partitions", exc_info=problem)
            try:
                async with asyncio.timeout(_SWEEP_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _reconcile(self) -> None:
        now_ms = clock.boot_ms()
        table, session = self.table, self.keeper.session
        for node_id, epoch in table.incarnations.items():
            if self._seen.get(node_id, (0, 0))[0] != epoch:
                self._seen[node_id] = epoch, now_ms
        if self._is_draining or len(self._is_known) < len(KINDS) or not session.is_live(now_ms):
            return
        if table.incarnations.get(self.node_id) != session.broker_epoch:
            return  # its own registration is still to be seen
        self._has_looked = True
        replicated = self._there = self._replicated()
        for partition in list(self.owned):
            topic = replicated.get(partition.topic)
            is_there = topic is not None and partition.number < len(topic.replicas)
            if partition.topic not in self._topics and not is_there:
                self._lose(partition, Cause.DELETED)
        for name, count in self._topics.items():
            pins = table.pins_of(name)
            self._consider_all(name, place(name, range(count), table.brokers, pins), pins, now_ms)
        for name, topic in replicated.items():
            pins = table.pins_of(name)
            placed = place_replicas(topic.replicas, table.brokers, pins)
            self._consider_all(name, placed, pins, now_ms)

    def _consider_all(
        self, topic: str, placed: Mapping[int, int], pins: Mapping[int, int], now_ms: int
    ) -> None:
        for number, node_id in placed.items():
            is_pinned = pins.get(number) == node_id
            self._consider(Partition(topic, number), node_id, is_pinned=is_pinned, now_ms=now_ms)

    def _consider(self, partition: Partition, node_id: int, *, is_pinned: bool, now_ms: int) -> None:
        if partition in self._busy:
            return
        owner = self.table.owners.get(partition)
        if partition in self.owned:
            since_ms = self._seen[node_id][1]
            may_go = is_pinned or (self._moving is None and now_ms - since_ms >= self._move_delay_ms)
            if node_id != self.node_id and may_go:
                self._begin(partition, self._hand_over(partition))
        elif partition in self.table.unclaimable:
            return
        elif node_id == self.node_id and (owner is None or owner == self.node_id):
            self._begin(partition, self._claim(partition, None, Cause.CLAIMED))

    def _begin(self, partition: Partition, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._busy[partition] = task
        task.add_done_callback(lambda done: self._ended(partition, done))

    def _ended(self, partition: Partition, task: "asyncio.Task[None]") -> None:
        if self._busy.get(partition) is task:
            del self._busy[partition]
            self._retake(partition)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("The ownership of %s-%d", *partition, exc_info=problem)
        self.look_again()

    async def _claim(self, partition: Partition, token: int | None, cause: Cause) -> None:
        session = self.keeper.session
        guard = None
        if partition.topic not in self._topics:
            topic = self._there.get(partition.topic)
            if topic is None:
                return
            guard = topic.is_there
        claim = Claim(self._keys, partition, self.node_id, session.lease, session.broker_epoch, token, guard)
        while True:
            ended = claim.answered(await self._asked(claim.next()))
            if isinstance(ended, Owned):
                self.owned[partition] = ended
                self.moves[cause] += 1
                self._ownings.gained(partition, ended, cause)
                return
            if isinstance(ended, NotOwned):
                # What is seen here is older than what the engine has: it would be asked again and again.
                await asyncio.sleep(_RETRY_S)
                return

    async def _asked(self, command: Read | Transaction) -> Page | Outcome | EngineError:
        try:
            if isinstance(command, Read):
                return await self._engine.read(command)
            return await self._engine.transact(command)
        except EngineError as error:
            # One that is full says so at once, and each partition would ask again and again.
            await asyncio.sleep(_FULL_RETRY_S if isinstance(error, NoSpace) else _RETRY_S)
            return error

    def _lose(self, partition: Partition, cause: Cause) -> Owned:
        owned = self.owned.pop(partition)
        self.moves[cause] += 1
        try:
            self._ownings.lost(partition, cause)
        except Exception as problem:  # noqa: BLE001 - it is no longer owned all the same, and so are the others
            _LOG.error("Letting go of %s-%d", *partition, exc_info=problem)
        return owned

    async def _hand_over(self, partition: Partition, cause: Cause = Cause.MOVED) -> None:
        if partition not in self.owned:
            return  # it was given up before this began
        self._moving = partition
        try:
            owned = self._lose(partition, cause)
            while isinstance(await self._asked(release(self._keys, partition, owned.token)), EngineError):
                pass
            if cause is Cause.MOVED:
                async with asyncio.timeout(_HANDOVER_S):
                    while self.table.owners.get(partition) in (None, self.node_id):
                        self._seen_anew.clear()
                        await self._seen_anew.wait()
        except TimeoutError:
            return
        finally:
            self._moving = None

    def doubt(self, partition: Partition) -> None:
        """The partition is to be taken anew, if it is owned: it was given up already."""
        owned = self.owned.pop(partition, None)
        if owned is not None:
            self.moves[Cause.DOUBTED] += 1
        if owned is not None and not self._is_draining:
            self._doubted[partition] = owned.token
            if partition not in self._busy:
                self._retake(partition)

    def _retake(self, partition: Partition) -> None:
        """Also where another broker is to have it by now: it is handed over then, as what is owned is."""
        token = self._doubted.pop(partition, None)
        if token is not None and not self._is_draining:
            self._begin(partition, self._claim(partition, token, Cause.RETAKEN))

    async def move(self, partition: Partition, to: int | None, hold_loading_ms: int = 0) -> None:
        """Has a broker own a partition, for as long as it lives; None: whoever it is placed at. In: for how long
        at least it is to say then that it loads, once. Raises EngineError."""
        pin = self._keys.pin(*partition)
        value = b"%d %d" % (to or 0, hold_loading_ms) if hold_loading_ms else b"%d" % (to or 0)
        operation = Delete(pin) if to is None else Put(pin, value)
        page = await self._engine.read(Read(pin))
        written_at = page.entries[0].written_at if page.entries else ABSENT
        # A try that lands late undoes no later move.
        move = Transaction((WrittenAt(pin, written_at),), (operation,))
        if not (await self._engine.transact(move)).succeeded:
            raise Unavailable("another broker has moved it meanwhile, or etcd has lost the cluster")

    # Ending

    async def drain(self, timeout_s: float) -> None:
        """Gives everything back, and ends the session: others take over at once."""
        self._is_draining = True
        for task in self._busy.values():
            task.cancel()
        try:
            async with asyncio.timeout(timeout_s):
                owned = [self._hand_over(partition, Cause.SHUTDOWN) for partition in list(self.owned)]
                await asyncio.gather(*owned)
        except TimeoutError:
            _LOG.warning("Not everything could be given back in time; it is free when the session ends")
        await self.keeper.close(1.0)
        self.abandon()

    def abandon(self) -> None:
        """Stops at once."""
        self._is_draining = True
        for task in (*self._tasks, *self._busy.values()):
            task.cancel()
        self.keeper.abandon()
