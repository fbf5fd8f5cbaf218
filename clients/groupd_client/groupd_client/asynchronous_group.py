"""Groups, clocks, faults and stand-ins for asyncio, as in `groupd_client.group` and `groupd_client.fault`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, Unpack

from groupd_client import operations
from groupd_client.conditions import Conditions
from groupd_client.group import MOST_ENTRIES, create_not_met, read_committed
from groupd_client.operation import Operation, Span
from groupd_client.problem import NoSuchGroup, Problem, note_cleanup_error
from groupd_client.value import Value

Run = Callable[[Operation], Awaitable[Any]]


class AsyncFault:
    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self._run = run

    async def status(self) -> Value:
        """Return the current state and counts."""
        found: Value = await self._run(operations.fault("GET", self.name))
        return found

    async def wait(self, hit: int = 1, within: Span = operations.DEFAULT_WAIT) -> Value:
        """Wait until the fault has `hit` hits. Raises NotMet."""
        __tracebackhide__ = True
        found: Value = await self._run(operations.wait_for_hit(self.name, hit, within))
        return found

    async def release(self, *, only_oldest: bool = False) -> Value:
        """Release the held requests of the fault."""
        body = {"one": "oldest"} if only_oldest else {}
        found: Value = await self._run(operations.fault("POST", self.name, "release", body=body))
        return found

    async def remove(self) -> None:
        """Remove the fault if it still exists."""
        try:
            await self._run(operations.fault("DELETE", self.name))
        except Problem as problem:
            if problem.kind != "no-such-fault":
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with note_cleanup_error(error, f"removing the fault {self.name}"):
            await self.remove()


class AsyncGroup:
    def __init__(self, group_id: str, run: Run) -> None:
        self.group_id = group_id
        self._run = run

    async def description(self) -> Value:
        """Return the current description."""
        return await self._request("GET")

    async def state(self) -> str:
        """Kafka's name of the current state; Dead if the group does not exist."""
        try:
            state: str = (await self.description()).state
        except NoSuchGroup:
            return "Dead"
        return state

    async def offsets(self) -> list[Any]:
        """Return the committed offsets, with lag."""
        found: list[Any] = (await self._request("GET", "offsets")).offsets
        return found

    async def committed(self) -> dict[str, int]:
        """Return the committed offsets by partition ("orders-0")."""
        return read_committed(await self.offsets())

    async def ledger(self) -> list[Value]:
        """Return the rebalances of the group, oldest first; none if the group does not exist."""
        operation = operations.group_operation("GET", self.group_id, "ledger", last=MOST_ENTRIES)
        try:
            found: list[Value] = (await self._run(operation)).entries
        except NoSuchGroup:
            return []
        return found

    async def explain(self) -> Value:
        """Return the current waits of the group."""
        return await self._request("GET", "explain")

    async def wait(
        self, *, within: Span = operations.DEFAULT_WAIT, **conditions: Unpack[Conditions]
    ) -> Value:
        """Wait until all conditions hold at once. Raises NotMet."""
        __tracebackhide__ = True
        found: Value = await self._run(operations.wait(self.group_id, conditions, within))
        return found

    async def check(self, **conditions: Unpack[Conditions]) -> Value:
        """Check once, without waiting, that all conditions hold. Raises NotMet."""
        __tracebackhide__ = True
        found: Value = await self._run(operations.check(self.group_id, conditions))
        return found

    @asynccontextmanager
    async def no_rebalance(self) -> AsyncIterator[None]:
        """Check that the group does not rebalance in the block. Raises NotMet."""
        before = {entry.seq for entry in await self.ledger()}
        yield
        broken = [entry for entry in await self.ledger() if entry.seq not in before]
        if broken:
            ledger = await self._run(
                operations.read_text("groups", self.group_id, "ledger", last=len(broken))
            )
            raise create_not_met(self.group_id, ledger)

    @property
    def clock(self) -> "AsyncClock":
        """The clock of this group."""
        return AsyncClock(self.group_id, self._run)

    async def expire(self, reference: str) -> Value:
        """Expire the session of a member now."""
        return await self._request("POST", "members", reference, "expire")

    async def send_away(self, reference: str, reason: str | None = None) -> Value:
        """Remove a member, as Kafka's Admin client does."""
        body = {} if reason is None else {"reason": reason}
        return await self._request("POST", "members", reference, "remove", body=body)

    async def disconnect(self, reference: str) -> Value:
        """Close the connections of a member."""
        return await self._request("POST", "members", reference, "disconnect")

    async def failover(
        self,
        *,
        not_coordinator: Span = 0,
        loading: Span = 0,
        settle: Span = operations.DEFAULT_SETTLE,
        to: int | None = None,
    ) -> Value:
        """Move the coordinator of the group."""
        found: Value = await self._run(
            operations.failover(self.group_id, not_coordinator, loading, settle, to)
        )
        return found

    async def set_offsets(self, offsets: Mapping[str, int | str], *, dry_run: bool = False) -> Value:
        """Set offsets of a group without members."""
        return await self._request("PUT", "offsets", body={"offsets": offsets, "dry_run": dry_run})

    async def expire_offsets(self, at: int | str, *, topics: Sequence[str] = ()) -> Value:
        """Run the offset expiry check as of a later time."""
        return await self._request("POST", "offsets", "expire", body={"at": at, "topics": list(topics)})

    async def delete(self) -> None:
        await self._request("DELETE")

    async def stand_in(self, client_id: str, topics: Sequence[str], **more: Any) -> "AsyncStandIn":
        """Create a member that groupd plays."""
        await self._request(
            "POST", "stand-ins", body={"client_id": client_id, "topics": list(topics), **more}
        )
        return AsyncStandIn(self.group_id, client_id, self._run)

    async def _request(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Value:
        answer: Value = await self._run(operations.group_operation(method, self.group_id, *path, body=body))
        return answer


class AsyncClock:
    def __init__(self, group_id: str | None, run: Run) -> None:
        self._group_id = group_id
        self._run = run

    async def state(self) -> Value:
        """Return the state of the clock and its next deadlines."""
        found: Value = await self._run(operations.clock(self._group_id, "GET"))
        return found

    async def freeze(self, *, except_gone: bool = False) -> Value:
        """Stop the clock of the group."""
        body = {"frozen": True, "except": "gone"} if except_gone else {"frozen": True}
        found: Value = await self._run(operations.clock(self._group_id, "PUT", body=body))
        return found

    async def run(self) -> Value:
        """Start the stopped clock again."""
        found: Value = await self._run(operations.clock(self._group_id, "PUT", body={"frozen": False}))
        return found

    async def advance(
        self, by: Span, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE
    ) -> Value:
        """Advance the clock by a duration. Raises ClockStopped."""
        operation = operations.advance(self._group_id, by, None if silent is None else list(silent), settle)
        found: Value = await self._run(operation)
        return found

    async def step(
        self, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE
    ) -> Value:
        """Advance the clock to its next deadline."""
        operation = operations.step(self._group_id, None if silent is None else list(silent), settle)
        found: Value = await self._run(operation)
        return found

    async def reset(self) -> None:
        """Return the clock to the time of the process."""
        await self._run(operations.clock(self._group_id, "DELETE"))


class AsyncStandIn:
    def __init__(self, group_id: str, client_id: str, run: Run) -> None:
        self.client_id = client_id
        self._group_id = group_id
        self._run = run

    async def leave(self) -> Value:
        """Leave the group with LeaveGroup."""
        return await self._request("POST", "leave")

    async def stall(self) -> Value:
        """Stop sending requests, as a paused process."""
        return await self._request("POST", "stall")

    async def rejoin(self) -> Value:
        """Join the group again."""
        return await self._request("POST", "rejoin")

    async def remove(self) -> None:
        """Leave the group and delete the stand-in."""
        await self._request("DELETE")

    async def _request(self, method: str, *path: str) -> Value:
        operation = operations.group_operation(method, self._group_id, "stand-ins", self.client_id, *path)
        answer: Value = await self._run(operation)
        return answer
