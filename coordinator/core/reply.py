"""Replies: the responses to requests that are not answered at once.

A handler returns its response, or it *defers* the reply and sends the response later. The reply knows where the
response goes: to the connection of a client (`QueuedReply`), into the combined response of a scatter-gather
(`PartReply`), or to groupd itself (`InternalReply`). A reply is completed once, by `send` or `fail`, or it is
abandoned when its client disconnects.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from coordinator.core.response_status import BLOCKED, DeferredResponse, NoResponse

TransformResponse = Callable[[Any], object]
"""Takes a response and returns the response to send. It returns BLOCKED if it keeps the response to send it
later."""


class Reply(Struct, eq=False, kw_only=True):
    """The deferred reply to one request."""

    transform: TransformResponse | None = None
    """Applied to the response before it is sent; see `map`."""
    is_in_progress: bool = False
    """Whether the daemon works on the request and will complete the reply, whatever other clients do."""
    on_abandoned: Callable[[], object] | None = None
    """Called once when the client disconnects before the reply is complete. Belongs to the component that will
    complete the reply."""
    on_finished: Callable[[], object] | None = None
    """Called when the work on the request ends, which may be after the client has disconnected. None: no such call
    will come. A component that makes the call sets a function first, which the connection may replace."""

    def send(self, response: object) -> None:
        """Send the response, once. Nothing happens if the client has disconnected. Never raises.

        Args:
            response: a message or a `NoResponse`. CLOSE_CONNECTION closes the connection after the complete
                responses.
        """
        raise NotImplementedError

    def apply_transform(self, response: object) -> object:
        """Return the response to send for the response of a handler, or BLOCKED if none is sent now."""
        transform, self.transform = self.transform, None
        if transform is None or isinstance(response, NoResponse):
            return response
        try:
            return transform(response)
        except Exception as problem:  # noqa: BLE001 - the caller may complete many replies
            self.fail(problem)
            return BLOCKED

    def complete_with(self, handler: Callable[..., object], *arguments: object) -> None:
        """Call a delayed handler, and send the response that it returns.

        A handler that raises fails the reply. One that returns a `DeferredResponse` completes the reply itself.
        """
        self.is_in_progress = False
        self.on_abandoned = None
        try:
            response = handler(*arguments)
        except Exception as problem:  # noqa: BLE001 - an error of a request closes only its own connection
            self.fail(problem)
            return
        if not isinstance(response, DeferredResponse):
            self.send(response)

    def map(self, transform: TransformResponse) -> None:
        """Transform the response before it leaves. The transform that was added last is applied first."""
        if self.transform is not None:
            transform = partial(_transform_twice, transform, self.transform)
        self.transform = transform

    def begin_work(self, on_abandoned: Callable[[], object]) -> None:
        """Record that the daemon works on the request until it calls `complete_with`. `on_abandoned` stops
        that work if the client disconnects."""
        self.is_in_progress = True
        self.on_abandoned = on_abandoned

    def hold(self, on_abandoned: Callable[[], object]) -> None:
        """Record that a component keeps the reply until `release`, and that the daemon does not work on the
        request.

        Args:
            on_abandoned: called once if the client disconnects meanwhile.
        """
        self.is_in_progress = False
        self.on_abandoned = on_abandoned

    def release(self) -> None:
        """End `hold`: the component completes the reply now, or the client has disconnected."""
        self.on_abandoned = None

    def abandon(self) -> None:
        """Notify the component that would complete the reply that the client has disconnected."""
        on_abandoned, self.on_abandoned = self.on_abandoned, None
        if on_abandoned is not None:
            on_abandoned()

    def reopen(self, blocks: bool) -> "Reply":
        """Return this opened reply to a handler that defers it. `blocks`: see `DeferReply`."""
        if blocks:
            self.block()
        return self

    def block(self) -> None:
        """Keep the connection from processing further requests until the reply is complete."""

    def fail(self, problem: Exception) -> None:
        """Report that there will be no response. The connection of a client is closed."""
        raise NotImplementedError

    def close_connection(self) -> None:
        """Close the connection of the client after the complete responses. A request of groupd itself has no
        connection."""

    def abort_connection(self) -> None:
        """Close the connection of the client at once. A request of groupd itself has no connection."""


def _transform_twice(first: TransformResponse, second: TransformResponse, response: object) -> object:
    return second(first(response))


DeferReply = Callable[[bool], Reply]
"""Opens the reply of a request that is not answered at once. The argument tells whether the reply blocks the
connection of the client: then it processes no other request until the reply is complete."""


def defer_mapped(defer: DeferReply, transform: TransformResponse, blocks: bool) -> Reply:
    """Open a reply with a transform of its response. `blocks`: see `DeferReply`."""
    reply = defer(blocks)
    reply.map(transform)
    return reply


class InternalReply(Reply):
    """The reply to a request that groupd itself makes."""

    on_response: Callable[[Any], object]
    on_failure: Callable[[Exception], object] | None = None
    """Takes the error of a failed request. None: a failure is a defect and is raised."""

    def send(self, response: object) -> None:
        response = self.apply_transform(response)
        if response is not BLOCKED:
            self.on_response(response)

    def fail(self, problem: Exception) -> None:
        if self.on_failure is None:
            raise problem
        self.on_failure(problem)
