"""A group, and what belongs to it: members, its clock, its ledger, stand-ins."""

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
    """A group of a broker, which need not be there yet."""

    def __init__(self, group_id: str, run: Run) -> None:
        self.group_id = group_id
        self._run = run

    # How it is

    @property
    def description(self) -> Value:
        """As it is now: `state`, `members`, `generation_id`, ... Raises NoSuchGroup."""
        return self._request("GET")

    @property
    def state(self) -> str:
        """Kafka's name of its state; Dead where there is no such group."""
        try:
            state: str = self.description.state
        except NoSuchGroup:
            return "Dead"
        return state

    @property
    def members(self) -> list[Any]:
        """Its members as they are now."""
        found: list[Any] = self.description.members
        return found

    @property
    def offsets(self) -> list[Any]:
        """What it has committed, partition by partition, with lag. Raises NoSuchGroup."""
        found: list[Any] = self._request("GET", "offsets").offsets
        return found

    def committed(self) -> dict[str, int]:
        """Offsets by partition ("orders-0")."""
        return read_committed(self.offsets)

    @property
    def ledger(self) -> "Ledger":
        """Why it rebalanced, oldest first: `group.ledger[-1].cause`."""
        return Ledger(self.group_id, self._run)

    def explain(self) -> Value:
        """What it waits for now, and what would end that; `.text` is all of it in words."""
        return self._request("GET", "explain")

    # Waiting

    def wait(self, *, within: Span = operations.DEFAULT_WAIT, **conditions: Unpack[Conditions]) -> Value:
        """Waits until all of this is so at once. Raises NotMet with the reason when it is not in time."""
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
        """The group must not rebalance in the block. Raises NotMet with what the ledger says of it."""
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
        """Its own clock."""
        return Clock(self.group_id, self._run)

    def member(self, reference: str) -> "Member":
        """A member, by member id, or by the instance or client id that it alone has."""
        return Member(self.group_id, reference, self._run)

    def failover(
        self,
        *,
        not_coordinator: Span = 0,
        loading: Span = 0,
        settle: Span = operations.DEFAULT_SETTLE,
        to: int | None = None,
    ) -> Value:
        """Moves its coordinator: everybody is told NOT_COORDINATOR, then that it loads, for so long. In: how
        long the answer waits for the members to be back; the broker, of several, that coordinates it then."""
        found: Value = self._run(operations.failover(self.group_id, not_coordinator, loading, settle, to))
        return found

    def set_offsets(self, offsets: Mapping[str, int | str], *, dry_run: bool = False) -> Value:
        """Sets offsets of a group without members: {"orders-0": 41}."""
        return self._request("PUT", "offsets", body={"offsets": offsets, "dry_run": dry_run})

    def expire_offsets(self, at: int | str, *, topics: Sequence[str] = ()) -> Value:
        """Has retention look at its offsets as if it were later: "+8d"."""
        return self._request("POST", "offsets", "expire", body={"at": at, "topics": list(topics)})

    def delete(self) -> None:
        self._request("DELETE")

    def stand_in(self, client_id: str, topics: Sequence[str], **more: Any) -> "StandIn":
        """Has groupd play a member, which joins from now on. In: `group_instance_id`, `group_protocol` (classic,
        consumer), `protocols`, `session_timeout`, `rebalance_timeout`, `assignment` as the API has them."""
        body = {"client_id": client_id, "topics": list(topics), **more}
        self._request("POST", "stand-ins", body=body)
        return StandIn(self.group_id, client_id, self._run)

    def stand_ins(self) -> list[Any]:
        """The members that groupd plays."""
        found: list[Any] = self._request("GET", "stand-ins").stand_ins
        return found

    def _request(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Value:
        answer: Value = self._run(operations.group_operation(method, self.group_id, *path, body=body))
        return answer


def read_committed(offsets: Sequence[Any]) -> dict[str, int]:
    """Offsets by partition ("orders-0"). In: what the API says of a group."""
    return {f"{each.topic}-{each.partition}": each.offset for each in offsets if each.offset is not None}


def create_not_met(group_id: str, ledger_text: str) -> NotMet:
    """A group rebalanced that was not to. In: what the ledger says of it."""
    title = f"{group_id} rebalanced"
    return NotMet("not-met", 409, title, f"{title}, and was not to:\n{ledger_text}", {})


class Ledger(Sequence[Value]):
    """The entries that the daemon has of a group, oldest first, an open one last; asked for each time."""

    def __init__(self, group_id: str, run: Run) -> None:
        self._group_id = group_id
        self._run = run

    def entries(self) -> list[Value]:
        """All of them, now; none of a group that nobody knows."""
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
        """As it is now. Raises NoSuchMember."""
        return self._request("GET")

    def expire(self) -> Value:
        """Ends its session now."""
        return self._request("POST", "expire")

    def remove(self, reason: str | None = None) -> Value:
        """Sends it away, as Kafka's Admin does."""
        return self._request("POST", "remove", body={} if reason is None else {"reason": reason})

    def disconnect(self) -> Value:
        """Closes its connections, without a word."""
        return self._request("POST", "disconnect")

    def _request(self, method: str, *path: str, body: Mapping[str, Any] | None = None) -> Value:
        operation = operations.group_operation(
            method, self._group_id, "members", self.reference, *path, body=body
        )
        found: Value = self._run(operation)
        return found


class Clock:
    """The time of a group, or of all groups that have no clock of their own."""

    def __init__(self, group_id: str | None, run: Run) -> None:
        self._group_id = group_id
        self._run = run

    @property
    def state(self) -> Value:
        """Whether it is `frozen`, and its `next` deadlines."""
        found: Value = self._run(operations.clock(self._group_id, "GET"))
        return found

    def freeze(self, *, except_gone: bool = False) -> Value:
        """Holds it. In: whether the sessions of members that are gone may end."""
        body = {"frozen": True, "except": "gone"} if except_gone else {"frozen": True}
        found: Value = self._run(operations.clock(self._group_id, "PUT", body=body))
        return found

    def run(self) -> Value:
        """Lets it run again."""
        found: Value = self._run(operations.clock(self._group_id, "PUT", body={"frozen": False}))
        return found

    def advance(
        self, by: Span, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE
    ) -> Value:
        """Has so much time pass: who is there is kept alive, who is gone, or `silent`, is not. Raises ClockStopped
        where somebody who is there has not done what it has to."""
        operation = operations.advance(self._group_id, by, None if silent is None else list(silent), settle)
        found: Value = self._run(operation)
        return found

    def step(self, *, silent: Sequence[str] | None = None, settle: Span = operations.DEFAULT_SETTLE) -> Value:
        """Has time pass until something happens."""
        operation = operations.step(self._group_id, None if silent is None else list(silent), settle)
        found: Value = self._run(operation)
        return found

    def reset(self) -> None:
        """It is as late as it is, from now on."""
        self._run(operations.clock(self._group_id, "DELETE"))


class StandIn:
    """A member that groupd plays."""

    def __init__(self, group_id: str, client_id: str, run: Run) -> None:
        self.client_id = client_id
        self._group_id = group_id
        self._run = run

    def leave(self) -> Value:
        """Goes, and says so."""
        return self._request("POST", "leave")

    def stall(self) -> Value:
        """Says nothing any more, as a process that was stopped."""
        return self._request("POST", "stall")

    def rejoin(self) -> Value:
        """Is a member again."""
        return self._request("POST", "rejoin")

    def remove(self) -> None:
        """Leaves, and is forgotten."""
        self._request("DELETE")

    def _request(self, method: str, *path: str) -> Value:
        operation = operations.group_operation(method, self._group_id, "stand-ins", self.client_id, *path)
        answer: Value = self._run(operation)
        return answer
