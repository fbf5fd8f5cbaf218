"""Injects faults between connections and handlers, and into the handling of group events. `FaultInjectors`
holds all injectors of a server and is created with the first fault.

`RequestInjector` intercepts the requests of an API only while a fault needs its requests or responses. The order on
a connection never changes. A held, delayed or swallowed request has a reply that blocks its connection: nothing
that follows on the connection is processed, as when Kafka mutes a connection, and no response overtakes
another.

A fault on a group event acts after the turn in which the event occurred.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from msgspec.structs import replace

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.services import Services
from coordinator.control.faults.disk_injector import DiskInjector
from coordinator.control.faults.error_answers import (
    build_fault_response,
    find_errors,
    merge_error_response,
    split_request,
)
from coordinator.control.faults.fault_action import AT_REQUEST_POINTS, DISK_POINTS, can_throttle
from coordinator.control.faults.fault_matchers import BrokerLookup, RequestAttributes
from coordinator.control.faults.fault_reports import FaultAudit
from coordinator.control.faults.installed_fault import (
    LONGEST_HOLD_S,
    HeldRequest,
    InstalledFault,
    find_first_triggered,
)
from coordinator.control.operator_actions import ActionLog
from coordinator.core import clock
from coordinator.core.interceptors import InterceptorRank
from coordinator.core.outcome import Now
from coordinator.core.reply import Reply
from coordinator.core.response_status import BLOCKED, CLOSE_CONNECTION, DeferredResponse, NoResponse
from coordinator.core.wire_name import get_wire_name
from coordinator.group.group_event_types import GroupEvent
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from protocol.error_codes import ErrorCode

FaultsByApi = dict[int, list[InstalledFault]]
Interceptor = Callable[[Handler], Handler]


class RequestInjector:
    def __init__(
        self, services: Services, around: BrokerLookup, disk: DiskInjector, told: FaultAudit
    ) -> None:
        """Create the injectors. Requests wait in `disk` until their appends are synced. `told` records hits."""
        self._services = services
        self._around = around
        self._disk = disk
        self._told = told
        self._at_request: FaultsByApi = {}
        self._at_answer: FaultsByApi = {}
        self._at_disk: FaultsByApi = {}
        self._interceptors: dict[int, Interceptor] = {}
        """The interceptors of the APIs with a fault."""

    def add(self, fault: InstalledFault) -> None:
        """Add a fault. It is tried after the existing ones."""
        self._enter(fault)
        self._intercept_apis(fault.action.keys.union(self._interceptors))

    def use(self, faults: Sequence[InstalledFault]) -> None:
        """Replace all faults. The new ones are tried in their order."""
        self._at_request, self._at_answer, self._at_disk = {}, {}, {}
        for fault in faults:
            self._enter(fault)
        self._intercept_apis(frozenset().union(*(fault.action.keys for fault in faults)))

    def _enter(self, fault: InstalledFault) -> None:
        at = fault.action.at
        faults = self._at_disk if at in DISK_POINTS else self._at_answer
        if at in AT_REQUEST_POINTS:
            faults = self._at_request
        for key in fault.action.keys:
            faults.setdefault(key, []).append(fault)

    def _intercept_apis(self, keys: frozenset[int]) -> None:
        """Intercept the requests of these APIs, and of no others."""
        tables = self._services.routes_by_broker.values()
        for key in sorted(self._interceptors.keys() - keys):
            interceptor = self._interceptors.pop(key)
            for routes in tables:
                routes.get_interceptors(key).remove(interceptor)
        for key in sorted(keys - self._interceptors.keys()):
            interceptor = self._interceptors[key] = partial(self._intercept_handler, key)
            for routes in tables:
                routes.get_interceptors(key).add(InterceptorRank.FAULTS, interceptor)

    def _intercept_handler(self, key: int, handler: Handler) -> Handler:
        return partial(self._handle, key, handler)

    # A request

    def _handle(self, key: int, plain: Handler, request: Any, context: RequestContext) -> object:
        asked = RequestAttributes(key, request, context, self._around)
        fault = find_first_triggered(self._at_request.get(key, ()), lambda fault: _fits(fault, asked))
        if fault is None:
            return self._ask(plain, asked, context, None)
        kind = fault.action.kind
        if kind == "error":
            return self._refuse(fault, plain, asked, context)
        self._told.report_hit(fault, kind, asked)
        if kind == "drop":
            return CLOSE_CONNECTION
        reply = context.defer(blocks=True)
        late_context = context.with_reply(reply)
        self._keep(
            fault, asked, reply, partial(reply.complete_with, self._ask_late, plain, asked, late_context)
        )
        return BLOCKED

    def _refuse(
        self, fault: InstalledFault, plain: Handler, asked: RequestAttributes, context: RequestContext
    ) -> object:
        """Answer the matching part of a request with the error, and let the handler answer the rest."""
        action, key = fault.action, asked.key
        error = action.errors[key]
        groups = fault.matcher.select_groups(asked)
        part, rest = split_request(key, asked.request, groups, action.partitions, self._around.topic_name)
        is_by_partition = action.partitions is not None
        self._told.report_hit(fault, error.name, asked)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            fault.add_ghosts(asked.member_ids)
        refusal = build_fault_response(part, asked.version, error, is_by_partition=is_by_partition)
        if rest is None:
            return refusal
        asked.narrow_request(rest)
        put_in = partial(
            merge_error_response,
            key,
            asked.version,
            refusal=refusal,
            asked_groups=asked.group_ids,
            is_by_partition=is_by_partition,
        )
        return self._ask(plain, asked, context, put_in)

    def _keep(self, fault: InstalledFault, asked: RequestAttributes, reply: Reply, go_on: Any) -> None:
        """Hold, delay or swallow the completion of a reply."""
        kind = fault.action.kind
        holding = HeldRequest(kind, asked, reply, go_on, fault.held_requests.remove)
        fault.held_requests.append(holding)
        if kind == "delay":
            holding.release_after(self._services.loop, fault.draw_delay_s())
        elif kind == "hold":
            holding.release_after(self._services.loop, LONGEST_HOLD_S)

    def _ask_late(self, plain: Handler, asked: RequestAttributes, context: RequestContext) -> object:
        """Handle a delayed request now, at the current time."""
        self._services.arrival.advance(clock.monotonic_ns())
        asked.forget_groups()
        return self._ask(plain, asked, context, None)

    def _ask(self, plain: Handler, asked: RequestAttributes, context: RequestContext, put_in: Any) -> object:
        """Let the handler answer a request, and apply the faults at its answer."""
        at_answer = [fault for fault in self._at_answer.get(asked.key, ()) if _fits(fault, asked)]
        at_disk = [fault for fault in self._at_disk.get(asked.key, ()) if _fits(fault, asked)]
        positions = [(part, part.end_offset) for part in asked.find_partitions()] if at_disk else []
        if not at_answer and put_in is None:
            response = plain(asked.request, context)
        else:
            intercept = partial(self._intercept_reply, asked, at_answer, put_in)
            response = plain(asked.request, context.notify_deferred(intercept))
            if not isinstance(response, DeferredResponse | NoResponse):
                answered = self._change(asked, at_answer, put_in, response)
                response = answered.response
                if answered.fault is not None:
                    response = self._keep_at_once(answered.fault, asked, context, response)
        for partition, position in positions:
            if partition.log is not None and partition.end_offset != position:
                self._disk.reached(partition, asked, at_disk)
        return response

    # An answer

    def _keep_at_once(
        self, fault: InstalledFault, asked: RequestAttributes, context: RequestContext, response: object
    ) -> object:
        """Drop, crash or hold back a response that the handler returned immediately."""
        if fault.action.kind == "drop":
            return CLOSE_CONNECTION
        if fault.action.kind == "crash":
            self._crash(fault, asked)
            return CLOSE_CONNECTION
        reply = context.defer(blocks=True)
        self._keep(fault, asked, reply, partial(reply.send, response))
        return BLOCKED

    def _intercept_reply(
        self, asked: RequestAttributes, faults: Sequence[InstalledFault], put_in: Any, reply: Reply
    ) -> None:
        """Let a deferred response pass through the faults."""
        reply.map(partial(self._change_late, asked, faults, put_in, reply))

    def _change_late(
        self,
        asked: RequestAttributes,
        faults: Sequence[InstalledFault],
        put_in: Any,
        reply: Reply,
        response: Any,
    ) -> object:
        """Apply faults to a deferred response. Return BLOCKED if one of them holds it back."""
        answered = self._change(asked, faults, put_in, response)
        fault = answered.fault
        if fault is None:
            return answered.response
        reply.block()
        if fault.action.kind in ("drop", "crash"):
            # Earlier responses are sent at the end of this iteration.
            self._services.loop.call_soon(reply.close_connection)
            if fault.action.kind == "crash":
                self._crash(fault, asked)
        else:
            self._keep(fault, asked, reply, partial(reply.send, answered.response))
        return BLOCKED

    def _crash(self, fault: InstalledFault, asked: RequestAttributes) -> None:
        for partition in asked.find_partitions():
            self._disk.crash(fault, partition)

    def _change(
        self, asked: RequestAttributes, faults: Sequence[InstalledFault], put_in: Any, response: Any
    ) -> "_InjectedResponse":
        """Return the response to send, and the fault that holds it back, if any."""
        if put_in is not None:
            response = put_in(response)
        errors: set[int] = set()

        def fits(fault: InstalledFault) -> bool:
            if not fault.matcher.awaits_answer:
                return True
            errors.update(find_errors(response) if not errors else ())
            return fault.matcher.matches_errors(errors)

        fault = find_first_triggered(faults, fits)
        if fault is None:
            return _InjectedResponse(response, None)
        kind = fault.action.kind
        if kind == "error":
            error = fault.action.errors[asked.key]
            self._told.report_hit(fault, error.name, asked)
            return _InjectedResponse(self._told_error(fault, asked, response, error), None)
        self._told.report_hit(fault, kind, asked)
        if kind == "throttle_ms":
            response = deepcopy(response)
            response.throttle_time_ms = fault.action.throttle_ms
            return _InjectedResponse(response, None)
        if kind == "coordinator":
            return _InjectedResponse(_told_coordinator(fault, asked, response), None)
        return _InjectedResponse(response, fault)

    def _told_error(
        self, fault: InstalledFault, asked: RequestAttributes, response: Any, error: ErrorCode
    ) -> Any:
        is_by_partition = fault.action.partitions is not None
        groups = fault.matcher.select_groups(asked)
        part, _ = split_request(
            asked.key, asked.request, groups, fault.action.partitions, self._around.topic_name
        )
        refusal = build_fault_response(part, asked.version, error, is_by_partition=is_by_partition)
        return merge_error_response(
            asked.key,
            asked.version,
            response,
            refusal=refusal,
            asked_groups=asked.group_ids,
            is_by_partition=is_by_partition,
        )


class _InjectedResponse:
    """A response, and the fault that holds it back."""

    __slots__ = ("fault", "response")

    def __init__(self, response: object, fault: InstalledFault | None) -> None:
        self.response = response
        self.fault = fault


def _fits(fault: InstalledFault, asked: RequestAttributes) -> bool:
    """Return whether a fault matches a request and its action applies to it."""
    action = fault.action
    if not fault.matcher.matches_request(asked):
        return False
    if action.kind == "throttle_ms":
        return can_throttle(asked.key, asked.version)
    return action.partitions is None or any(map(action.partitions, asked.partition_names))


def _told_coordinator(fault: InstalledFault, asked: RequestAttributes, response: Any) -> Any:
    told = fault.action.coordinator
    assert told is not None, fault.name
    redirect = partial(
        replace, node_id=told.node_id, host=told.host, port=told.port, error_code=ErrorCode.NONE
    )
    if not response.coordinators:
        return redirect(response)
    groups = fault.matcher.select_groups(asked)
    coordinators = [redirect(entry) if entry.key in groups else entry for entry in response.coordinators]
    return replace(response, coordinators=coordinators)


EventAction = Callable[[InstalledFault, str], None]
"""Performs the action of a fault on an event of a group (group id)."""


class FaultInjectors:
    def __init__(self, services: Services, actions: ActionLog, act: EventAction) -> None:
        catalogue = services.data_plane.catalogue

        def topic_name(topic_id: bytes) -> str | None:
            topic = catalogue.find_topic_by_id(topic_id)
            return None if topic is None else topic.name

        self.audit = FaultAudit(actions)
        self.disk = DiskInjector(services, self.audit)
        around = BrokerLookup(services.runtime, services.group_clock.now, topic_name)
        self._requests = RequestInjector(services, around, self.disk, self.audit)
        self._services = services
        self._act = act
        self._on_events: list[InstalledFault] = []

    def use(self, faults: Sequence[InstalledFault]) -> None:
        """Replace all faults. The new ones are tried in their order."""
        self._on_events = [fault for fault in faults if fault.event_matcher is not None]
        self._requests.use([fault for fault in faults if fault.event_matcher is None])
        self._listen()

    def add(self, fault: InstalledFault) -> None:
        """Add a fault. It is tried after the existing ones."""
        if fault.event_matcher is None:
            self._requests.add(fault)
        else:
            self._on_events.append(fault)
            self._listen()

    def _listen(self) -> None:
        bus = self._services.group_events
        is_subscribed = self._happened in bus.subscribers
        if self._on_events and not is_subscribed:
            bus.subscribe(EventRank.FAULTS, self._happened)
        elif is_subscribed and not self._on_events:
            bus.unsubscribe(self._happened)

    def _happened(self, _: int, event: GroupEvent, number: int, now: Now) -> None:
        """Match an event of a group. The action follows at the end of the current call of the machine."""
        fault = find_first_triggered(
            self._on_events,
            lambda fault: fault.event_matcher is not None and fault.event_matcher.matches_event(event),
        )
        if fault is not None:
            self.audit.report_event_hit(fault, event.group_id, get_wire_name(type(event)))
            self._services.loop.call_soon(self._act, fault, event.group_id)
