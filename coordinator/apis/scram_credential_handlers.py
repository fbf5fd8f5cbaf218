"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): the SCRAM credentials of users.

A change is durable before it is answered, and affects the next authentication.

Source: Kafka's `ScramControlManager` and `ScramImage`, for the order of errors and their texts.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.apis.acl_handlers import format_requester
from coordinator.apis.request_task import run_in_thread_if_large
from coordinator.core.message_text import printable
from coordinator.core.time_budget import Budget
from coordinator.network.request_context import RequestContext
from coordinator.security.core.sasl_mechanisms import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    create_credential,
)
from coordinator.security.core.security_state import ScramUser
from coordinator.security.security_store import SecurityStore
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("SecurityManager")

MAX_CREDENTIALS: Final = 100_000
_MAX_LINES: Final = 100
_MECHANISMS: Final = frozenset(ScramMechanism)
_NO_ERROR_MESSAGE: Final = ""
"""The message of a success: Kafka's is not null here."""
_ALTERED_TWICE: Final = "A user credential cannot be altered twice in the same request"

Scram = Mapping[ScramUser, ScramCredential]


class _CredentialError(NamedTuple):
    code: ErrorCode
    message: str


class _AlterationPlan(NamedTuple):
    """The plan for a request, by user: deletions, upsertions and errors."""

    deletions: dict[str, ScramUser]
    upsertions: dict[str, tuple[ScramUser, ScramCredential]]
    errors: dict[str, _CredentialError]

    def apply(self, scram: Scram) -> dict[ScramUser, ScramCredential]:
        """Return the credentials after the plan."""
        after = dict(scram)
        for user in self.deletions.values():
            after.pop(user, None)
        after.update(self.upsertions.values())
        return after

    def create_response(self, failure: _CredentialError | None = None) -> AlterUserScramCredentialsResponse:
        """Build one result for each user. `failure` is the error if the write failed."""
        done = [
            _create_result(name, failure)
            if failure is not None
            else AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, error_message=None)
            for name in (*self.deletions, *self.upsertions)
        ]
        return AlterUserScramCredentialsResponse(
            results=done + [_create_result(name, error) for name, error in self.errors.items()]
        )


class ScramCredentialHandler:
    """Answers DescribeUserScramCredentials and AlterUserScramCredentials."""

    def __init__(self, store: SecurityStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        """Serializes requests, which read the credentials and change them."""

    async def describe_credentials(
        self, request: DescribeUserScramCredentialsRequest, _: RequestContext, __: Budget
    ) -> DescribeUserScramCredentialsResponse:
        """Describe mechanisms and iterations of some users, or of all."""
        names = [user.name for user in request.users or ()]
        scram = self._store.state.scram
        return await run_in_thread_if_large(
            lambda: _create_describe_response(scram, names), len(scram) + len(names)
        )

    async def alter_credentials(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext, budget: Budget
    ) -> AlterUserScramCredentialsResponse:
        """Delete and upsert credentials, all in one write; each user has a result."""
        budget.begin_changes()
        requester = format_requester(context)
        async with self._lock:
            scram = self._store.state.scram
            size = len(request.deletions) + len(request.upsertions)
            plan = await run_in_thread_if_large(lambda: _create_plan(request, scram), size)
            if not plan.deletions and not plan.upsertions:
                return plan.create_response()
            if len(plan.apply(self._store.state.scram)) > MAX_CREDENTIALS:
                why = f"There must not be more than {MAX_CREDENTIALS} credentials. Remove some first"
                return plan.create_response(_CredentialError(ErrorCode.POLICY_VIOLATION, why))
            try:
                await asyncio.create_task(self._apply_plan(plan))
            except OSError as error:
                return plan.create_response(
                    _CredentialError(ErrorCode.KAFKA_STORAGE_ERROR, format_error_reason(error))
                )
            _log_changes("Removed", plan.deletions.values(), requester)
            _log_changes("Set", (user for user, _ in plan.upsertions.values()), requester)
        return plan.create_response()

    async def _apply_plan(self, plan: _AlterationPlan) -> None:
        """Apply a plan to the current credentials.

        ACLs, and in a cluster credentials as well, may have changed since the request began. Runs in a task of
        asyncio, because the timeouts of a cluster need one. Raises OSError.
        """
        state = self._store.state
        await self._store.change_state(replace(state, scram=plan.apply(state.scram)))


def _create_plan(request: AlterUserScramCredentialsRequest, scram: Scram) -> _AlterationPlan:
    plan = _AlterationPlan({}, {}, {})
    for deletion in request.deletions:
        name = deletion.name
        if name in plan.errors:
            continue
        error = _check_deletion(deletion, scram)
        if plan.deletions.pop(name, None) is not None:
            plan.errors[name] = _CredentialError(ErrorCode.DUPLICATE_RESOURCE, _ALTERED_TWICE)
        elif error is not None:
            plan.errors[name] = error
        else:
            plan.deletions[name] = name, ScramMechanism(deletion.mechanism)
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in plan.errors:
            continue
        error = _check_upsertion(upsertion)
        before = plan.deletions.pop(name, None) or plan.upsertions.pop(name, None)
        if before is not None:
            plan.errors[name] = _CredentialError(ErrorCode.DUPLICATE_RESOURCE, _ALTERED_TWICE)
        elif error is not None:
            plan.errors[name] = error
        else:
            plan.upsertions[name] = _create_credential(upsertion)
    return plan


def _check_name_and_mechanism(name: str, mechanism: int) -> _CredentialError | None:
    if not name:
        return _CredentialError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _MECHANISMS:
        return _CredentialError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _check_deletion(deletion: ScramCredentialDeletion, scram: Scram) -> _CredentialError | None:
    error = _check_name_and_mechanism(deletion.name, deletion.mechanism)
    if error is None and (deletion.name, ScramMechanism(deletion.mechanism)) not in scram:
        message = "Attempt to delete a user credential that does not exist"
        return _CredentialError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return error


def _check_upsertion(upsertion: ScramCredentialUpsertion) -> _CredentialError | None:
    error = _check_name_and_mechanism(upsertion.name, upsertion.mechanism)
    if error is not None:
        return error
    if upsertion.iterations < MIN_ITERATIONS:
        return _CredentialError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        return _CredentialError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:
        return _CredentialError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    return None


def _create_credential(upsertion: ScramCredentialUpsertion) -> tuple[ScramUser, ScramCredential]:
    mechanism = ScramMechanism(upsertion.mechanism)
    credential = create_credential(
        mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations
    )
    return (upsertion.name, mechanism), credential


def _create_result(name: str, error: _CredentialError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)


def _create_describe_response(scram: Scram, names: list[str]) -> DescribeUserScramCredentialsResponse:
    infos: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in sorted(scram.items(), key=lambda entry: entry[0]):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        infos.setdefault(name, []).append(info)
    seen: dict[str, int] = {}
    for name in names or infos:
        seen[name] = seen.get(name, 0) + 1
    return DescribeUserScramCredentialsResponse(
        error_message=_NO_ERROR_MESSAGE,
        results=[_describe_user(name, times, infos.get(name, [])) for name, times in seen.items()],
    )


def _describe_user(name: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
            credential_infos=[],
        )
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
            credential_infos=[],
        )
    return DescribeUserScramCredentialsResult(
        user=name, error_message=_NO_ERROR_MESSAGE, credential_infos=infos
    )


def _log_changes(verb: str, users: Iterable[ScramUser], requester: str) -> None:
    """Log a line for each change, up to a hundred of a request."""
    changed = list(users)
    for name, mechanism in changed[:_MAX_LINES]:
        _LOG.info(
            "%s the %s credential of %s, by %s",
            verb,
            mechanism.mechanism_name,
            printable(name, 80),
            requester,
        )
    if len(changed) > _MAX_LINES:
        _LOG.info("%s %d more credentials, by %s", verb, len(changed) - _MAX_LINES, requester)
