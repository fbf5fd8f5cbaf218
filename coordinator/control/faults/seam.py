"""Where faults stand between connections and handlers: in another table of routes, which is there only while a
fault wants a request or an answer.

Order on a connection never changes. What is held, delayed or swallowed takes a slot that parks, so that nothing
that follows on the connection is processed, as Kafka mutes a connection, and no answer overtakes another.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from coordinator import clock
from coordinator.answers import GOODBYE, NO_ANSWER, PARKED, Later
from coordinator.control.faults.action import AT_REQUEST_POINTS, DISK_POINTS, can_throttle
from coordinator.control.faults.answering import Answering, LateCaller
from coordinator.control.faults.asked import Asked, Surroundings
from coordinator.control.faults.disk import DiskSeam
from coordinator.control.faults.error_answers import errors_in, merged, refused, split
from coordinator.control.faults.fault import Fault, first_that_acts
from coordinator.control.faults.holding import LONGEST_HOLD_S, Holding
from coordinator.control.faults.told import Told
from coordinator.net.caller import Caller
from coordinator.net.route import Handler
from coordinator.net.slot import Slot
from coordinator.server.server import Server
from protocol.errors import ErrorCode

FaultsByApi = dict[int, list[Fault]]


class RequestSeam:
    """See the top of this file."""

    def __init__(self, server: Server, around: Surroundings, disk: DiskSeam, told: Told) -> None:
        """In: where requests wait for that what they append meets the disk; who is told of hits."""
        self._server = server
        self._around = around
        self._disk = disk
        self._told = told
        self._at_request: FaultsByApi = {}
        self._at_answer: FaultsByApi = {}
        self._at_disk: FaultsByApi = {}
        self._keys: frozenset[int] = frozenset()
        """The APIs that come here."""

    def add(self, fault: Fault) -> None:
        """One more is there from now on, which is tried after the others."""
        self._enter(fault)
        self._route(self._keys | fault.action.keys)

    def use(self, faults: Sequence[Fault]) -> None:
        """These are there from now on, in the order in which they were made."""
        self._at_request, self._at_answer, self._at_disk = {}, {}, {}
        for fault in faults:
            self._enter(fault)
        self._route(frozenset().union(*(fault.action.keys for fault in faults)))

    def _enter(self, fault: Fault) -> None:
        at = fault.action.at
        faults = self._at_disk if at in DISK_POINTS else self._at_answer
        if at in AT_REQUEST_POINTS:
            faults = self._at_request
        for key in fault.action.keys:
            faults.setdefault(key, []).append(fault)

    def _route(self, keys: frozenset[int]) -> None:
        """Has the requests of these APIs come here, and no others."""
        if keys == self._keys:
            return
        self._keys = keys
        for node_id, plain in self._server.routes_by_broker.items():
            routes = plain
            if keys:
                routes = plain.altered(
                    {key: partial(self._handle, key, plain.handler(key)) for key in sorted(keys)}
                )
            for endpoint in self._server.endpoints:
                if endpoint.node_id == node_id:
                    endpoint.routes = routes

    # A request

    def _handle(self, key: int, plain: Handler, request: Any, caller: Caller) -> object:
        asked = Asked(key, request, caller, self._around)
        fault = first_that_acts(self._at_request.get(key, ()), lambda fault: _fits(fault, asked))
        if fault is None:
            return self._ask(plain, asked, caller, None)
        kind = fault.action.kind
        if kind == "error":
            return self._refuse(fault, plain, asked, caller)
        self._told.hit(fault, kind, asked)
        if kind == "drop":
            return GOODBYE
        slot = caller.answer_later(parks=True)
        late = LateCaller(caller, slot)
        self._keep(fault, asked, slot, partial(self._ask_late, plain, asked, late))
        return PARKED

    def _refuse(self, fault: Fault, plain: Handler, asked: Asked, caller: Caller) -> object:
        """The error, for all that the fault is about; the rest is answered as ever."""
        action, key = fault.action, asked.key
        error = action.errors[key]
        groups = fault.matcher.groups(asked)
        part, rest = split(key, asked.request, groups, action.partitions, self._around.topic_name)
        is_by_partition = action.partitions is not None
        self._told.hit(fault, error.name, asked)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            fault.remember_ghosts(asked.member_ids)
        refusal = refused(key, part, asked.version, error, is_by_partition=is_by_partition)
        if rest is None:
            return refusal
        asked.request = rest
        put_in = partial(
            merged,
            key,
            asked.version,
            refusal=refusal,
            asked_groups=asked.group_ids,
            is_by_partition=is_by_partition,
        )
        return self._ask(plain, asked, caller, put_in)

    def _keep(self, fault: Fault, asked: Asked, slot: Slot, go_on: Any) -> None:
        """Holds, delays or swallows what has this slot."""
        kind = fault.action.kind
        slot.ends = False  # nobody is at work on it, whoever was
        holding = Holding(kind, asked, slot, go_on, fault.holdings.remove)
        fault.holdings.append(holding)
        if kind == "delay":
            holding.end_after(self._server.loop, fault.delay_s())
        elif kind == "hold":
            holding.end_after(self._server.loop, LONGEST_HOLD_S)

    def _ask_late(self, plain: Handler, asked: Asked, caller: LateCaller) -> None:
        """The request is reached only now, at the time of now."""
        slot = caller.slot
        try:
            self._server.arrival.advance(clock.monotonic_ns())
            asked.look_anew()
            response = self._ask(plain, asked, caller, None)
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.owner.has_failed(problem)
            return
        if type(response) is Later:
            return
        slot.fill(NO_ANSWER if response is GOODBYE else response)
        if response is GOODBYE:
            slot.owner.close()

    def _ask(self, plain: Handler, asked: Asked, caller: Caller, put_in: Any) -> object:
        """Has a request answered, with what is there for its answer in between."""
        at_answer = [fault for fault in self._at_answer.get(asked.key, ()) if _fits(fault, asked)]
        at_disk = [fault for fault in self._at_disk.get(asked.key, ()) if _fits(fault, asked)]
        positions = [(part, part.end_offset) for part in asked.partitions()] if at_disk else []
        if not at_answer and put_in is None:
            response = plain(asked.request, caller)
        else:
            answering = Answering(caller, partial(self._answered, asked, at_answer, put_in))
            response = plain(asked.request, answering)
            if type(response) is not Later and response is not NO_ANSWER and response is not GOODBYE:
                answered = self._change(asked, at_answer, put_in, response)
                response = answered.response
                if answered.fault is not None:
                    response = self._keep_at_once(answered.fault, asked, caller, response)
        for partition, position in positions:
            if partition.log is not None and partition.end_offset != position:
                self._disk.reached(partition, asked, at_disk)
        return response

    # An answer

    def _keep_at_once(self, fault: Fault, asked: Asked, caller: Caller, response: object) -> object:
        """An answer that is there at once, and does not leave at once."""
        if fault.action.kind == "drop":
            return GOODBYE
        if fault.action.kind == "crash":
            self._crash(fault, asked)
            return GOODBYE
        slot = caller.answer_later(parks=True)
        self._keep(fault, asked, slot, partial(slot.fill, response))
        return PARKED

    def _answered(
        self, asked: Asked, faults: Sequence[Fault], put_in: Any, slot: Slot, response: Any
    ) -> None:
        """An answer that came late. Raises what goes wrong."""
        answered = self._change(asked, faults, put_in, response)
        fault = answered.fault
        if fault is None:
            slot.fill(answered.response)
            return
        slot.owner.park(slot)
        if fault.action.kind in ("drop", "crash"):
            # What was answered before leaves at the end of this iteration.
            self._server.loop.call_soon(slot.owner.close)
            if fault.action.kind == "crash":
                self._crash(fault, asked)
            return
        slot.registry = None
        self._keep(fault, asked, slot, partial(slot.fill, answered.response))

    def _crash(self, fault: Fault, asked: Asked) -> None:
        for partition in asked.partitions():
            self._disk.crash(fault, partition)

    def _change(self, asked: Asked, faults: Sequence[Fault], put_in: Any, response: Any) -> "_Answered":
        """What is to be told, and the fault that keeps it from being told now."""
        if put_in is not None:
            response = put_in(response)
        errors: set[int] = set()

        def fits(fault: Fault) -> bool:
            if not fault.matcher.awaits_answer:
                return True
            errors.update(errors_in(response) if not errors else ())
            return fault.matcher.fits_error(errors)

        fault = first_that_acts(faults, fits)
        if fault is None:
            return _Answered(response, None)
        kind = fault.action.kind
        if kind == "error":
            error = fault.action.errors[asked.key]
            self._told.hit(fault, error.name, asked)
            return _Answered(self._told_error(fault, asked, response, error), None)
        self._told.hit(fault, kind, asked)
        if kind == "throttle_ms":
            response = deepcopy(response)
            response.throttle_time_ms = fault.action.throttle_ms
            return _Answered(response, None)
        if kind == "coordinator":
            return _Answered(_told_coordinator(fault, asked, response), None)
        return _Answered(response, fault)

    def _told_error(self, fault: Fault, asked: Asked, response: Any, error: ErrorCode) -> Any:
        is_by_partition = fault.action.partitions is not None
        groups = fault.matcher.groups(asked)
        part, _ = split(asked.key, asked.request, groups, fault.action.partitions, self._around.topic_name)
        refusal = refused(asked.key, part, asked.version, error, is_by_partition=is_by_partition)
        return merged(
            asked.key,
            asked.version,
            response,
            refusal=refusal,
            asked_groups=asked.group_ids,
            is_by_partition=is_by_partition,
        )


class _Answered:
    """An answer, and the fault that keeps it."""

    __slots__ = ("fault", "response")

    def __init__(self, response: object, fault: Fault | None) -> None:
        self.response = response
        self.fault = fault


def _fits(fault: Fault, asked: Asked) -> bool:
    """Whether a request is one that a fault is about, and has room for what it does."""
    action = fault.action
    if not fault.matcher.fits(asked):
        return False
    if action.kind == "throttle_ms":
        return can_throttle(asked.key, asked.version)
    return action.partitions is None or any(map(action.partitions, asked.partition_names))


def _told_coordinator(fault: Fault, asked: Asked, response: Any) -> Any:
    told = fault.action.coordinator
    assert told is not None, fault.name
    response = deepcopy(response)
    groups = fault.matcher.groups(asked)
    for entry in response.coordinators or [response]:
        if entry is response or entry.key in groups:
            entry.node_id, entry.host, entry.port = told.node_id, told.host, told.port
            entry.error_code = ErrorCode.NONE
    return response
