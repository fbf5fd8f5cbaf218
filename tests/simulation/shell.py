"""A minimal shell around the core: it does the work of the daemon's runtime in virtual time.

It appends records, and holds responses until the log is durable up to its end at the time of the response
(heartbeat responses do not wait). A blocked request delays later requests of its connection. A failed append or
sync unloads and reloads the partition. A crash loses all soft state and all unsynced data.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from msgspec.structs import asdict

from coordinator.core.outcome import Context, Now, Outcome
from coordinator.core.wire_name import get_wire_name
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_requests import FetchOffsets, GroupTimerKey
from coordinator.group.group_shard import HEARTBEAT_FAST_PATHS, GroupShard, ShardDecorator
from coordinator.group.topics_image import NO_TOPICS
from protocol.codec import decode, encode
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.group.new_shard import CONSUMER_CONFIG
from tests.simulation.checks import Checks
from tests.simulation.disk import AppendFailed, Disk, writes
from tests.simulation.network import Connection, Request
from tests.simulation.repeated_commits import RepeatedCommits
from tests.simulation.world import World

WALL_START_MS: Final = 1_700_000_000_000


class NotCoordinator:
    """The response of a loading or lost partition; the client retries later."""


class Shell:
    """One coordinator process with one partition; it can crash and restart."""

    def __init__(
        self, world: World, config: GroupConfig, shard: Callable[..., GroupShard], checks: Checks
    ) -> None:
        self.world = world
        self.config = config
        self.checks = checks
        self.disk = Disk(world.random)
        self.shard: GroupShard | None = None
        self.up = True
        self.wall_offset_ms = 0
        self.paused_until_ms = 0
        self.sync_ms = (0, 5)
        self._make = shard
        self._life = 0
        self._waiters = 0
        self._connections: dict[Connection, None] = {}
        self._inboxes: dict[Connection, deque[Request]] = {}
        self._parked: dict[Connection, int] = {}
        self._asked: dict[int, tuple[Connection, Request]] = {}
        self._gate: deque[tuple[int, int, Any]] = deque()
        self._timers: dict[GroupTimerKey, int] = {}
        self._syncing = False
        self._repeated_commits = RepeatedCommits()
        self._load()

    def now(self) -> Now:
        """Return the time by the process's clocks; a fault may have set the Unix time forward."""
        return Now(self.world.now_ms, WALL_START_MS + self.world.now_ms + self.wall_offset_ms)

    # --- life

    def crash(self) -> None:
        """Stop the machine; it restarts later."""
        if not self.up:
            return
        self.up = False
        self._forget()
        self.world.say("coordinator", f"crash, {self.disk.lose_tail()} batches lost")
        for connection in list(self._connections):
            connection.close()
        self.world.after(self.world.random.randint(10, 3_000), self._restart)

    def reload(self, why: str) -> None:
        """Unload the partition and load it again; fail all blocked requests."""
        if self.shard is None:
            return
        self.world.say("coordinator", f"reload: {why}")
        answers = self.shard.unload()
        self.checks.unloaded(answers)
        waiting = [waiter for waiter, _ in answers] + [waiter for _, waiter, _ in self._gate]
        for waiter in waiting:
            self._send(waiter, NotCoordinator())
        self._forget()
        self.world.after(self.world.random.randint(1, 500), self._load)

    def pause(self, span_ms: int) -> None:
        """Pause the process; it handles timers and requests after the pause."""
        self.world.say("coordinator", f"stands still for {span_ms} ms")
        self.paused_until_ms = self.world.now_ms + span_ms

    def _restart(self) -> None:
        self.up = True
        self.world.after(self.world.random.randint(0, 500), self._load)

    def _forget(self) -> None:
        self.checks.forget()
        self._life += 1
        self.shard = None
        self._syncing = False
        self._gate.clear()
        self._timers.clear()
        self._parked.clear()
        self._asked.clear()

    def _load(self) -> None:
        if not self.up or self.shard is not None:
            return
        self.disk.durable = self.disk.end
        self.shard = self._new_shard()
        self.disk.load_into(self.shard)
        self.checks.loaded(self.shard, self.disk)
        self.world.say("coordinator", f"loaded {self.disk.end} batches")
        self._follow("loaded", 0, self.shard.on_loaded(self.now()))
        for connection in list(self._connections):
            self._work_off(connection)

    def _new_shard(self) -> GroupShard:
        return self._make(self.config, NO_TOPICS, CONSUMER_CONFIG)

    # --- requests

    def receive(self, connection: Connection, request: Request) -> None:
        """Handle a request that has arrived."""
        if not self.up:
            connection.close()
            return
        self._connections[connection] = None
        self._inboxes.setdefault(connection, deque()).append(request)
        self._work_off(connection)

    def lost(self, connection: Connection) -> None:
        """Handle a closed connection: its waiting requests get no responses, its members stay."""
        self._connections.pop(connection, None)
        self._inboxes.pop(connection, None)
        self._parked.pop(connection, None)

    def _work_off(self, connection: Connection) -> None:
        if self._is_paused(lambda: self._work_off(connection)):
            return
        inbox = self._inboxes.get(connection)
        while inbox and connection not in self._parked and connection.open and self.up:
            self._handle(connection, inbox.popleft())

    def _is_paused(self, later: Callable[[], None]) -> bool:
        left_ms = self.paused_until_ms - self.world.now_ms
        if left_ms > 0:
            self.world.after(left_ms + self.world.random.randint(0, 1), later)
        return left_ms > 0

    def _handle(self, connection: Connection, request: Request) -> None:
        message = decode(request.api, request.version, request.body)
        if self.shard is None:
            heartbeat = isinstance(message, HeartbeatRequest)
            connection.answer(request, HeartbeatResponse(error_code=0) if heartbeat else NotCoordinator())
            return
        refusal = self._refusal(message)
        if refusal is not None:
            connection.answer(request, refusal)
            return
        if isinstance(message, OffsetFetchRequest):
            message = FetchOffsets(message.groups[0], message.require_stable)
        self._waiters += 1
        waiter = self._waiters
        self._asked[waiter] = (connection, request)
        needs_id = isinstance(message, JoinGroupRequest) and not message.member_id
        uuid = str(UUID(int=waiter)) if needs_id else ""
        context = Context(waiter, request.version, request.client_id, "/127.0.0.1", uuid)
        self.checks.asked(waiter, message)
        well = None
        if type(message) in HEARTBEAT_FAST_PATHS:
            well = self.shard.try_heartbeat(message, context, self.now().monotonic_ms)
        if well is None:
            outcome = self._call_shard(self.shard, connection, message, context)
        else:
            outcome = Outcome(replies=[(waiter, well)])
        if all(to != waiter for to, _ in outcome.replies):
            self._parked[connection] = waiter
        self._follow(message, waiter, outcome)

    def _call_shard(
        self, shard: GroupShard, connection: Connection, message: Any, context: Context
    ) -> Outcome:
        # As in a daemon, a decorated shard gets every commit whole.
        if not isinstance(message, OffsetCommitRequest) or isinstance(shard, ShardDecorator):
            return shard.handle(message, context, self.now())
        commits, version = self._repeated_commits, context.api_version
        outcome = shard.handle(commits.replace_request(connection, message, version), context, self.now())
        commits.prepare_repetition(shard, connection, message, version, outcome)
        return outcome

    def _refusal(self, message: Any) -> Any:
        """Return a rejection that a layer above the core gives, or None."""
        return None

    # --- outcomes

    def _follow(self, cause: Any, waiter: int, outcome: Outcome) -> None:
        assert self.shard is not None
        for event in outcome.events:
            self.world.say(event.group_id, get_wire_name(type(event)) + _details(event))
        try:
            if writes(outcome):
                self.disk.append(outcome)
        except AppendFailed:
            # These responses rely on records that are not in the log, so they are not sent.
            for to, message in outcome.replies:
                self.checks.withheld(to, message)
                self._send(to, NotCoordinator())
            self.reload("append failed")
            return
        self.checks.happened(cause, waiter, outcome, self.shard, self.disk, self.now())
        for key, deadline in outcome.timers.items():
            self._timers.pop(key, None)
            if deadline is not None:
                self._timers[key] = deadline
                self.world.after(deadline - self.world.now_ms, lambda life=self._life: self._wake(life))  # type: ignore[misc]
        for to, message in outcome.replies:
            if isinstance(cause, HeartbeatRequest):
                self._release(to, message)
            else:
                self._gate.append((self.disk.end, to, message))
        self._sync()
        self._open_gate()

    def _wake(self, life: int) -> None:
        if life != self._life or self._is_paused(lambda: self._wake(life)):
            return
        while self.shard is not None and life == self._life:
            due = [(deadline, key) for key, deadline in self._timers.items() if deadline <= self.world.now_ms]
            if not due:
                return
            key = min(due)[1]
            del self._timers[key]
            self._follow(key, 0, self.shard.fire_timer(key, self.now()))

    def _sync(self) -> None:
        if not self._syncing and self.disk.durable < self.disk.end:
            self._syncing = True
            end, life = self.disk.end, self._life
            self.world.after(self.world.random.randint(*self.sync_ms), lambda: self._synced(end, life))

    def _synced(self, end: int, life: int) -> None:
        if life != self._life or self._is_paused(lambda: self._synced(end, life)):
            return
        self._syncing = False
        try:
            self.disk.synced(end)
        except AppendFailed:
            self.reload("sync failed")
            return
        self._open_gate()
        self._sync()

    def _open_gate(self) -> None:
        while self._gate and self._gate[0][0] <= self.disk.durable:
            _, waiter, message = self._gate.popleft()
            self._release(waiter, message)

    def _release(self, waiter: int, message: Any) -> None:
        self.checks.released(waiter, message)
        self._send(waiter, message)

    def _send(self, waiter: int, message: Any) -> None:
        if waiter not in self._asked:
            return
        connection, request = self._asked.pop(waiter)
        if not isinstance(message, NotCoordinator):
            if request.api is OffsetFetchRequest:
                message = OffsetFetchResponse(groups=[message])
            message = decode(type(message), request.version, encode(message, request.version))
        connection.answer(request, message)
        if self._parked.get(connection) == waiter:
            del self._parked[connection]
            self.world.after(0, lambda: self._work_off(connection))


def _details(event: GroupEvent) -> str:
    """Format the fields of an event, without the group and without empty fields."""
    return "".join(
        f" {name}={value.name if isinstance(value, ErrorCode) else value}"
        for name, value in asdict(event).items()
        if value not in (None, "", ()) and name not in ("group_id", "client_host")
    )
