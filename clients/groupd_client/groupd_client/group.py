"""A group with its members, clock, ledger and stand-ins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack, overload

from groupd_client import operations
from groupd_client.conditions import Conditions
from groupd_client.operation import Operation, Span
from groupd_client.problem import NoSuchGroup, NotMet
from groupd_client.value import Value

Run = Callable[[Operation], Any]
"""Sends an operation to the group's broker."""

MOST_ENTRIES = 1000


class Group:
    """A group of a broker, which need not exist yet."""

    def __init__(self, group_id: str, run: Run) -> None:
        self.group_id = group_id
        self._run = run

    # How it is

    @property
    def description(self) -> Value:
        """The current description: `state`, `members`, `generation_id`, ... Raises NoSuchGroup."""
        return self._request("GET")

    @property
    def state(self) -> str:
        """Kafka's name of the current state; Dead if the group does not exist."""
        try:
            state: str = self.description.state
        except NoSuchGroup:
            return "Dead"
        return state

    @property
    def members(self) -> list[Any]:
        """The current members of the group. Raises NoSuchGroup."""
        found: list[Any] = self.description.members
        return found

    @property
    def offsets(self) -> list[Any]:
        """The committed offsets by partition, with lag. Raises NoSuchGroup."""
        found: list[Any] = self._request("GET", "offsets").offsets
        return found

    def committed(self) -> dict[str, int]:
        """Return the committed offsets by partition ("orders-0")."""
        return read_committed(self.offsets)

    @property
    def ledger(self) -> "Ledger":
        """The rebalances of the group, oldest first: `group.ledger[-1].cause`."""
        return Ledger(self.group_id, self._run)

    def explain(self) -> Value:
        """Return the current waits of the group and the events that end them; `.text` is the explanation as
        text."""
        return self._request("GET", "explain")

    # Waiting

    def wait(self, *, within: Span = operations.DEFAULT_WAIT, **conditions: Unpack[Conditions]) -> Value:
        """Wait until all conditions hold at once. Raises NotMet with the reason on timeout."""
        __tracebackhide__ = True
        found: Value = self._run(operations.wait(self.group_id, conditions, within))
        return found

    def check(self, **conditions: Unpack[Conditions]) -> Value:
        """Check once, without waiting, that all conditions hold. Raises NotMet with the reason when they do not."""
        __tracebackhide__ = True
        found: Value = self._run(operations.check(self.group_id, conditions))
        return found

    @contextmanager
    def no_rebalance(self) -> Iterator[None]:
        """Check that the group does not rebalance in the block. Raises NotMet with the ledger's entries."""
        __tracebackhide__ = True
        before = {entry.seq for entry in self.ledger}
        yield
        broken = [entry for entry in self.ledger if entry.seq not in before]
        if broken:
            ledger = self._run(operations.read_text("groups", self.group_id, "ledger", last=len(broken)))
            raise create_not_met(self.group_id, ledger)

    # Changing it

    @property
    def clock(self) -> "Clock":
        """The clock of this group."""
        return Clock(self.group_id, self._run)

    def member(self, reference: str) -> "Member":
        """Return a member by its member id, or by its instance or client id if that is unique."""
        return Member(self.group_id, reference, self._run)

    def failover(
        self,
        *,
        not_coordinator: Span = 0,
        loading: Span = 0,
        settle: Span = operations.DEFAULT_SETTLE,
        to: int | None = None,
    ) -> Value:
        """Move the coordinator of the group. Requests get NOT_COORDINATOR for `not_coordinator`, then
        COORDINATOR_LOAD_IN_PROGRESS for `loading`. The call returns when the members are back, after `settle`
        at the latest. `to` is the id of the new coordinator."""
        found: Value = self._run(operations.failover(self.group_id, not_coordinator, loading, settle, to))
        return found

    def set_offsets(self, offsets: Mapping[str, int | str], *, dry_run: bool = False) -> Value:
        """Set offsets of a group without members: {"orders-0": 41}."""
        return self._request("PUT", "offsets", body={"offsets": offsets, "dry_run": dry_run})

    def expire_offsets(self, at: int | str, *, topics: Sequence[str] = ()) -> Value:
        """Run the offset expiry check as of a later time: "+8d"."""
        return self._request("POST", "offsets", "expire", body={"at": at, "topics": list(topics)})

    def delete(self) -> None:
        self._request("DELETE")

    def stand_in(self, client_id: str, topics: Sequence[str], **more: Any) -> "StandIn":
        """Create a member that groupd plays. `more` has fields of the API: `group_instance_id`,
        `group_protocol` (classic, consumer), `protocols`, `session_timeout`, `rebalance_timeout`,
        `assignment`."""
        body = {"client_id": client_id, "topics": list(topics), **more}
        self._request("POST", "stand-ins", body=body)
        return StandIn(self.group_id, client_id, self._run)

    def stand_ins(self) -> list[Any]:
        """Return the members that groupd plays."""
        found: list[Any] = self._request("GET", "stand-ins").stand_ins
        return found

    def _request(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Value:
        answer: Value = self._run(operations.group_operation(method, self.group_id, *path, body=body))
        return answer


def read_committed(offsets: Sequence[Any]) -> dict[str, int]:
    """Return the offsets in a response of the API by partition ("orders-0")."""
    return {f"{each.topic}-{each.partition}": each.offset for each in offsets if each.offset is not None}


def create_not_met(group_id: str, ledger_text: str) -> NotMet:
    """Create the error for an unexpected rebalance from the text of the ledger."""
    title = f"{group_id} rebalanced"
    return NotMet("not-met", 409, title, f"{title} unexpectedly:\n{ledger_text}", {})


class Ledger(Sequence[Value]):
    """The ledger entries of a group, oldest first, an open one last. Each access requests them from the
    daemon."""

    def __init__(self, group_id: str, run: Run) -> None:
        self._group_id = group_id
        self._run = run

    def entries(self) -> list[Value]:
        """Return all current entries; none if the group does not exist."""
        operation = operations.group_operation("GET", self._group_id, "ledger", last=MOST_ENTRIES)
        try:
            found: list[Value] = self._run(operation).entries
        except NoSuchGroup:
            return []
        return found

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | list[Value]:
        return self.entries()[index]

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[Value]:
        return iter(self.entries())

    def __str__(self) -> str:
        answer: str = self._run(operations.read_text("groups", self._group_id, "ledger"))
        return answer


class Member:
    """A member of a group."""

    def __init__(self, group_id: str, reference: str, run: Run) -> None:
        self.reference = reference
        self._group_id = group_id
        self._run = run

    @property
    def description(self) -> Value:
        """The current description. Raises NoSuchMember."""
        return self._request("GET")

    def expire(self) -> Value:
        """Expire the session of the member now."""
        return self._request("POST", "expire")

    def remove(self, reason: str | None = None) -> Value:
        """Remove the member, as Kafka's Admin client does."""
        return self._request("POST", "remove", body={} if reason is None else {"reason": reason})

    def disconnect(self) -> Value:
        """Close the connections of the member."""
        return self._request("POST", "disconnect")

    def _request(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Value:
        operation = operations.group_operation(
            method, self._group_id, "members", self.reference, *path, body=body
        )
        found: Value = self._run(operation)
        return found


class Clock:
    """The clock of a group, or of all groups without a clock of their own."""

    def __init__(self, group_id: str | None, run: Run) -> None:
        self._group_id = group_id
        self._run = run

    @property
    def state(self) -> Value:
        """The state of the clock: `frozen`, and its `next` deadlines."""
        found: Value = self._run(operations.clock(self._group_id, "GET"))
        return found

    def freeze(self, *, except_gone: bool = False) -> Value:
        """Stop the clock. With `except_gone` sessions of disconnected members can still expire."""
        body = {"frozen": True, "except": "gone"} if except_gone else {"frozen": True}
        found: Value = self._run(operations.clock(self._group_id, "PUT", body=body))
        return found

    def run(self) -> Value:
        """Start the stopped clock again."""
        found: Value = self._run(operations.clock(self._group_id, "PUT", body={"frozen": False}))
        return found

    def advance(
        self, by: Span, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE
    ) -> Value:
        """Advance the clock by a duration. Connected members keep their sessions; disconnected and `silent`
        members do not. Raises ClockStopped if a connected member still has to act, for example to rejoin."""
        operation = operations.advance(self._group_id, by, None if silent is None else list(silent), settle)
        found: Value = self._run(operation)
        return found

    def step(self, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE) -> Value:
        """Advance the clock to its next deadline."""
        operation = operations.step(self._group_id, None if silent is None else list(silent), settle)
        found: Value = self._run(operation)
        return found

    def reset(self) -> None:
        """Return the clock to the time of the process."""
        self._run(operations.clock(self._group_id, "DELETE"))


class StandIn:
    """A member that groupd plays."""

    def __init__(self, group_id: str, client_id: str, run: Run) -> None:
        self.client_id = client_id
        self._group_id = group_id
        self._run = run

    def leave(self) -> Value:
        """Leave the group with LeaveGroup."""
        return self._request("POST", "leave")

    def stall(self) -> Value:
        """Stop sending requests, as a paused process."""
        return self._request("POST", "stall")

    def rejoin(self) -> Value:
        """Join the group again."""
        return self._request("POST", "rejoin")

    def remove(self) -> None:
        """Leave the group and delete the stand-in."""
        self._request("DELETE")

    def _request(self, method: str, *path: str) -> Value:
        operation = operations.group_operation(method, self._group_id, "stand-ins", self.client_id, *path)
        answer: Value = self._run(operation)
        return answer
