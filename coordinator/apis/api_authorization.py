"""Handlers that run after the guard of their API. Imported only if an authorizer is configured.

A guard of requests with many elements is a coroutine. If it suspends, the connection processes no other request,
and the handler completes the reply that was opened for the guard.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final

from msgspec.structs import replace

from coordinator.apis.auth_helper import AuditLog, AuthHelper, AuthorizationDenied
from coordinator.apis.authorization_rules import (
    PASS,
    CoroutineGuard,
    FinishResponse,
    Guard,
    GuardPassed,
    GuardResult,
)
from coordinator.apis.authorization_table import RULES
from coordinator.apis.group_handlers import CONSUMER_PROTOCOL
from coordinator.apis.request_task import RequestTasks
from coordinator.apis.topic_guards import create_metadata_guard
from coordinator.config.properties import Config
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import CLOSE_CONNECTION, DeferredResponse, NoResponse
from coordinator.core.time_budget import TimeBudget
from coordinator.network.repeated_requests import AnsweredRequest, CreateRepetition, Repetition
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.security.core.authorizer import Authorizer
from coordinator.topics.catalogue import Catalogue
from protocol.apis import APIS, ApiKey

_CONSUMER_PROTOCOL_APIS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
"""These APIs have no guard while the consumer protocol is disabled: every client gets UNSUPPORTED_VERSION."""

CreateAuthHelper = Callable[[RequestContext], AuthHelper]
"""Creates the helper that decides for the client of one request."""


class GuardedHandler:
    """Answers one API: its guard first, then its handler."""

    def __init__(
        self,
        guard: Callable[..., Any],
        handler: Callable[..., object],
        create_helper: CreateAuthHelper,
        tasks: RequestTasks,
    ) -> None:
        """Create the handler.

        Args:
            guard: a `Guard` or a `CoroutineGuard`.
            handler: the guarded handler.
            tasks: the coroutines of requests.
        """
        self._guard = guard
        self._handler = handler
        self._create_helper = create_helper
        self._tasks = tasks
        self.handle: Handler = self._handle_in_steps if iscoroutinefunction(guard) else self._handle_at_once
        """Answers a request: the handler answers the part that the guard allows, and the guard the rest."""

    def _handle_at_once(self, request: object, context: RequestContext) -> object:
        result = self._guard(request, self._create_helper(context))
        if result is PASS:
            return self._handler(request, context)
        return self._apply_result(result, request, context, None)

    def _handle_in_steps(self, request: object, context: RequestContext) -> object:
        budget = self._tasks.create_budget()
        guard = self._guard(request, self._create_helper(context), budget)
        on_result = partial(self._on_guard_result, request, context, budget)
        return self._tasks.run(guard, context.defer, budget, on_result)

    def _on_guard_result(
        self,
        request: object,
        context: RequestContext,
        budget: TimeBudget,
        result: GuardResult,
        reply: Reply | None,
    ) -> object:
        if reply is not None:
            context = context.with_reply(reply)
        if result is PASS:
            return self._handler(request, context)
        return self._apply_result(result, request, context, budget)

    def _apply_result(
        self, result: GuardResult, request: object, context: RequestContext, budget: TimeBudget | None
    ) -> object:
        """Refuse the request, or pass the rest of it to the handler."""
        if isinstance(result, AuthorizationDenied):
            return result.response
        if result.closes:
            return self._handle_and_close(result, request, context)
        finish = result.finish
        if finish is None:
            return self._handler(request, context, *result.arguments)
        response = self._handler(request, self._finish_deferred(finish, context), *result.arguments)
        if isinstance(response, DeferredResponse | NoResponse):
            return response
        budget = budget or self._tasks.create_budget()
        return self._tasks.run(finish(response, budget), context.defer, budget)

    def _finish_deferred(self, finish: FinishResponse, context: RequestContext) -> RequestContext:
        """Return the context for the handler. A deferred response is finished in steps."""

        def finish_response(reply: Reply, response: object) -> object:
            budget = self._tasks.create_budget()
            return self._tasks.run(finish(response, budget), reply.reopen, budget)

        def open_reply(blocks: bool) -> Reply:
            reply = context.defer(blocks)
            reply.map(partial(finish_response, reply))
            return reply

        return replace(context, open_reply=open_reply)

    def _handle_and_close(self, result: GuardPassed, request: object, context: RequestContext) -> object:
        """Handle a Produce with acks=0 with a partly refused request: the client sees a closed connection instead
        of an error. Work that has begun to change data runs to its end.
        """
        replies: list[Reply] = []
        response = self._handler(request, context.notify_deferred(replies.append), *result.arguments)
        if not isinstance(response, DeferredResponse):
            return CLOSE_CONNECTION
        for reply in replies:
            reply.close_connection()
        return response


class ApiAuthorization:
    """The authorizer of one server in the form that its handlers use."""

    def __init__(self, authorizer: Authorizer, catalogue: Catalogue, config: Config) -> None:
        self._authorizer = authorizer
        self._create_helper: CreateAuthHelper = partial(AuthHelper, authorizer, AuditLog(), catalogue)
        self._config = config

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        """Return whether the client of a request has a right, for handlers that check it themselves."""
        return self._create_helper(context).allows(operation, resource_type, resource_name)

    def guard_handlers(self, handlers: Mapping[int, Handler], tasks: RequestTasks) -> dict[int, Handler]:
        """Return handlers that first call the guard of their API."""
        guarded: dict[int, Handler] = {}
        for key, handler in handlers.items():
            guard = self._create_guard(ApiKey(key))
            if guard is not None:
                handler = GuardedHandler(guard, handler, self._create_helper, tasks).handle
            guarded[key] = handler
        return guarded

    def _create_guard(self, key: ApiKey) -> Guard | CoroutineGuard | None:
        if key is ApiKey.METADATA:
            return create_metadata_guard(creates_topics=self._config.auto_create_topics_enable)
        if key in _CONSUMER_PROTOCOL_APIS and (
            CONSUMER_PROTOCOL not in self._config.group_coordinator_rebalance_protocols
        ):
            return None
        return RULES[key].create_guard(APIS[key])

    def guard_repetitions(self, create: CreateRepetition) -> CreateRepetition:
        """Return a function that creates repetitions of authorized requests. They end when an ACL changes."""
        index = self._authorizer.index

        def create_guarded(answered: AnsweredRequest) -> Repetition | None:
            repetition = create(answered)
            if repetition is None:
                return None
            epoch, repeat = index.epoch, repetition.repeat

            def repeat_authorized(
                process_ms: int, changes: Sequence[Any], defer: DeferReply | None
            ) -> object | None:
                return repeat(process_ms, changes, defer) if index.epoch == epoch else None

            return repetition._replace(repeat=repeat_authorized)

        return create_guarded
