"""A group with its members, clock, ledger and stand-ins, and the faults of a broker."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from groupd_client.async_transport import AsyncEntries, sync_property
from groupd_client.conditions import Conditions
from groupd_client.operation import DEFAULT_SETTLE, DEFAULT_WAIT, Operation, Span, drop_none, seconds
from groupd_client.problem import NoSuchGroup, NotMet, Problem, note_cleanup_error
from groupd_client.value import Value

Run = Callable[[Operation], Awaitable[Any]]
"""Sends an operation to a broker."""
MOST_ENTRIES = 1000


class AsyncResource:
    """A part of the API. `path` is the beginning of the paths of its operations."""

    def __init__(self, run: Run, *path: str) -> None:
        self._run = run
        self._path = path

    async def _call(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, lasts_s: float = 0, **query: Any
    ) -> Value:
        """Call an operation. The result is None if the operation has no response."""
        __tracebackhide__ = True
        answer: Value = await self._run(Operation(method, (*self._path, *path), query, body, lasts_s))
        return answer

    async def _read_text(self, *path: str, **query: Any) -> str:
        """Return a resource as text for people."""
        text: str = await self._run(Operation("GET", (*self._path, *path), query, is_text=True))
        return text


class AsyncFault(AsyncResource):
    """A fault of a broker. A context manager removes it at the end of the block."""

    def __init__(self, name: str, run: Run) -> None:
        super().__init__(run, "faults", name)
        self.name = name

    @sync_property
    async def status(self) -> Value:
        """Return the current `state`, and the counts `matched`, `hit` and `holding`."""
        return await self._call("GET")

    async def wait(self, hit: int = 1, within: Span = DEFAULT_WAIT) -> Value:
        """Wait at most `within` until the fault has had `hit` hits since its creation. Raises NotMet."""
        __tracebackhide__ = True
        return await self._call("POST", "wait", body={"hit": hit, "within": within}, lasts_s=seconds(within))

    async def release(self, *, only_oldest: bool = False) -> Value:
        """Release the held requests of the fault."""
        return await self._call("POST", "release", body={"one": "oldest"} if only_oldest else {})

    async def remove(self) -> None:
        """Remove the fault and release its held requests. A fault that has ended need not exist."""
        try:
            await self._call("DELETE")
        except Problem as problem:
            if problem.kind != "no-such-fault":  # it has acted as often as it should
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the fault {self.name}"):
            await self.remove()


class AsyncGroup(AsyncResource):
    """A group of a broker, which need not exist yet."""

    def __init__(self, group_id: str, run: Run) -> None:
        super().__init__(run, "groups", group_id)
        self.group_id = group_id

    @sync_property
    async def description(self) -> Value:
        """Return the current description: `state`, `members`, `generation_id`, ... Raises NoSuchGroup."""
        return await self._call("GET")

    @sync_property
    async def state(self) -> str:
        """Return Kafka's name of the current state; Dead if the group does not exist."""
        try:
            state: str = (await self.description()).state
        except NoSuchGroup:
            return "Dead"
        return state

    @sync_property
    async def members(self) -> list[Any]:
        """Return the current members of the group. Raises NoSuchGroup."""
        found: list[Any] = (await self.description()).members
        return found

    @sync_property
    async def offsets(self) -> list[Any]:
        """Return the committed offsets by partition, with lag. Raises NoSuchGroup."""
        found: list[Any] = (await self._call("GET", "offsets")).offsets
        return found

    async def committed(self) -> dict[str, int]:
        """Return the committed offsets by partition ("orders-0")."""
        found = await self.offsets()
        return {f"{each.topic}-{each.partition}": each.offset for each in found if each.offset is not None}

    @sync_property
    def ledger(self) -> "AsyncLedger":
        """Return the rebalances of the group, oldest first; none if the group does not exist."""
        return AsyncLedger(self._run, *self._path, "ledger")

    async def explain(self) -> Value:
        """Return the current waits of the group and the events that end them; `.text` is the explanation as
        text."""
        return await self._call("GET", "explain")

    async def wait(self, *, within: Span = DEFAULT_WAIT, **conditions: Unpack[Conditions]) -> Value:
        """Wait at most `within`, in real time, until all conditions hold at once. Raises NotMet with the reason
        on timeout."""
        __tracebackhide__ = True
        body = {**drop_none(conditions), "within": within}
        return await self._call("POST", "wait", body=body, lasts_s=seconds(within))

    async def check(self, **conditions: Unpack[Conditions]) -> Value:
        """Check once, without waiting, that all conditions hold. Raises NotMet with the reason when they do not."""
        __tracebackhide__ = True
        return await self._call("POST", "check", body=drop_none(conditions))

    @asynccontextmanager
    async def no_rebalance(self) -> AsyncIterator[None]:
        """Check that the group does not rebalance in the block. Raises NotMet with the ledger's entries."""
        __tracebackhide__ = True
        before = {entry.seq for entry in await self.ledger().entries()}
        yield
        broken = [entry for entry in await self.ledger().entries() if entry.seq not in before]
        if broken:
            entries = await self._read_text("ledger", last=len(broken))
            title = f"{self.group_id} rebalanced"
            raise NotMet("not-met", 409, title, f"{title} unexpectedly:\n{entries}", {})

    @property
    def clock(self) -> "AsyncClock":
        """The clock of this group."""
        return AsyncClock(self.group_id, self._run)

    def member(self, reference: str) -> "AsyncMember":
        """Return a member by its member id, or by its instance or client id if that is unique."""
        return AsyncMember(self.group_id, reference, self._run)

    async def expire(self, reference: str) -> Value:
        """Expire the session of a member now."""
        return await self.member(reference).expire()

    async def send_away(self, reference: str, reason: str | None = None) -> Value:
        """Remove a member with LeaveGroup, as Kafka's Admin client does."""
        return await self.member(reference).remove(reason)

    async def disconnect(self, reference: str) -> Value:
        """Close the connections of a member."""
        return await self.member(reference).disconnect()

    async def failover(
        self,
        *,
        not_coordinator: Span = 0,
        loading: Span = 0,
        settle: Span = DEFAULT_SETTLE,
        to: int | None = None,
    ) -> Value:
        """Move the coordinator of the group, and wait until the members are back.

        Args:
            not_coordinator: how long requests get NOT_COORDINATOR.
            loading: how long requests then get COORDINATOR_LOAD_IN_PROGRESS.
            settle: the maximum time to wait for the members.
            to: the node id of the new coordinator; None for the current one.
        """
        spans = {"not_coordinator": not_coordinator, "loading": loading, "settle": settle}
        body = {**spans, **drop_none({"to": to})}
        return await self._call("POST", "failover", body=body, lasts_s=sum(map(seconds, spans.values())))

    async def set_offsets(self, offsets: Mapping[str, int | str], *, dry_run: bool = False) -> Value:
        """Set offsets of a group without members by partition: {"orders-0": 41}. A dry run only returns the
        changes."""
        return await self._call("PUT", "offsets", body={"offsets": offsets, "dry_run": dry_run})

    async def expire_offsets(self, at: int | str, *, topics: Sequence[str] = ()) -> Value:
        """Expire the offsets with a retention that ends by a later time: "+8d" from the group time, or Unix time in
        milliseconds. `topics` limits the expiry to these topics."""
        return await self._call("POST", "offsets", "expire", body={"at": at, "topics": list(topics)})

    async def delete(self) -> None:
        """Delete the group, which must have no members, and its offsets."""
        await self._call("DELETE")

    async def stand_in(self, client_id: str, topics: Sequence[str], **more: Any) -> "AsyncStandIn":
        """Create a member that groupd plays. `more` has fields of the API: `group_instance_id`,
        `group_protocol` (classic, consumer), `protocols`, `session_timeout`, `rebalance_timeout`,
        `assignment`."""
        await self._call("POST", "stand-ins", body={"client_id": client_id, "topics": list(topics), **more})
        return AsyncStandIn(self.group_id, client_id, self._run)

    async def stand_ins(self) -> list[Any]:
        """Return the members that groupd plays."""
        found: list[Any] = (await self._call("GET", "stand-ins")).stand_ins
        return found


class AsyncLedger(AsyncEntries, AsyncResource):
    """The ledger entries of a group, oldest first, an open one last."""

    async def entries(self) -> list[Value]:
        """Return all current entries; none if the group does not exist."""
        try:
            found: list[Value] = (await self._call("GET", last=MOST_ENTRIES)).entries
        except NoSuchGroup:
            return []
        return found

    async def text(self) -> str:
        """Return the last entries as text for people."""
        return await self._read_text()


class AsyncMember(AsyncResource):
    """A member of a group."""

    def __init__(self, group_id: str, reference: str, run: Run) -> None:
        super().__init__(run, "groups", group_id, "members", reference)
        self.reference = reference

    @sync_property
    async def description(self) -> Value:
        """Return the current description. Raises NoSuchMember."""
        return await self._call("GET")

    async def expire(self) -> Value:
        """Expire the session of the member now."""
        return await self._call("POST", "expire")

    async def remove(self, reason: str | None = None) -> Value:
        """Remove the member with LeaveGroup, as Kafka's Admin client does."""
        return await self._call("POST", "remove", body=drop_none({"reason": reason}))

    async def disconnect(self) -> Value:
        """Close the connections of the member."""
        return await self._call("POST", "disconnect")


class AsyncClock(AsyncResource):
    """The clock of a group, or for None the default clock, which all groups without an own clock use."""

    def __init__(self, group_id: str | None, run: Run) -> None:
        super().__init__(run, *(() if group_id is None else ("groups", group_id)), "clock")

    @sync_property
    async def state(self) -> Value:
        """Return the state of the clock: `frozen`, and the `next` deadline of the group."""
        return await self._call("GET")

    async def freeze(self, *, except_gone: bool = False) -> Value:
        """Freeze the clock. With `except_gone` the sessions of disconnected members can still expire."""
        body = {"frozen": True, "except": "gone"} if except_gone else {"frozen": True}
        return await self._call("PUT", body=body)

    async def run(self) -> Value:
        """Start the frozen clock again."""
        return await self._call("PUT", body={"frozen": False})

    async def advance(
        self, by: Span, *, silent: Sequence[str] | None = None, settle: Span = DEFAULT_SETTLE
    ) -> Value:
        """Advance the clock by a duration.

        Connected members keep their sessions; disconnected and `silent` members do not. `settle` is the real time
        for which groupd waits for a connected member that still has to act, for example to rejoin. Raises
        ClockStopped if the member does not act.
        """
        body = drop_none({"by": by, "silent": silent, "settle": settle})
        return await self._call("POST", "advance", body=body, lasts_s=seconds(settle) * 10)

    async def step(self, *, silent: Sequence[str] | None = None, settle: Span = DEFAULT_SETTLE) -> Value:
        """Advance the clock to its next deadline. Arguments are those of `advance`."""
        body = drop_none({"silent": silent, "settle": settle})
        return await self._call("POST", "step", body=body, lasts_s=seconds(settle) * 10)

    async def reset(self) -> None:
        """Remove the clock. The group uses the default clock or the time of the process; deadlines keep their
        remaining time."""
        await self._call("DELETE")


class AsyncStandIn(AsyncResource):
    """A member that groupd plays."""

    def __init__(self, group_id: str, client_id: str, run: Run) -> None:
        super().__init__(run, "groups", group_id, "stand-ins", client_id)
        self.client_id = client_id

    async def leave(self) -> Value:
        """Leave the group with LeaveGroup."""
        return await self._call("POST", "leave")

    async def stall(self) -> Value:
        """Stop sending requests, as a paused process does."""
        return await self._call("POST", "stall")

    async def rejoin(self) -> Value:
        """Join the group again."""
        return await self._call("POST", "rejoin")

    async def remove(self) -> None:
        """Leave the group and delete the stand-in."""
        await self._call("DELETE")
