"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): who can log in by SCRAM.

A change is durable before it is answered, and acts on the next authentication.

Source: Kafka's `ScramControlManager` and `ScramImage`, for the order of errors and their texts.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.net.caller import Caller
from coordinator.net.peer import printable
from coordinator.security.credential import ScramCredential, ScramMechanism
from coordinator.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, credential_of
from coordinator.security.security_state import ScramUser
from coordinator.server.acl_lines import who_asks
from coordinator.server.handlers.in_task import InTask, apart
from coordinator.server.security_store import SecurityStore
from protocol.errors import ErrorCode
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
from storage.os_error import reason_of

_LOG: Final = logging.getLogger("SecurityManager")

MOST_CREDENTIALS: Final = 100_000
_MOST_LINES: Final = 100
_MECHANISMS: Final = frozenset(ScramMechanism)
_FINE: Final = ""
"""The message where there is no error: here it is not null in Kafka."""
_TWICE: Final = "A user credential cannot be altered twice in the same request"

Scram = Mapping[ScramUser, ScramCredential]


class _Error(NamedTuple):
    code: ErrorCode
    message: str


class _Plan(NamedTuple):
    """What a request comes to: by user, what goes, what comes, and what is wrong."""

    deletions: dict[str, ScramUser]
    upsertions: dict[str, tuple[ScramUser, ScramCredential]]
    errors: dict[str, _Error]

    def carried_out(self, scram: Scram) -> dict[ScramUser, ScramCredential]:
        """What is known then."""
        gone = set(self.deletions.values())
        return {user: each for user, each in scram.items() if user not in gone} | dict(
            self.upsertions.values()
        )

    def response(self, failure: _Error | None = None) -> AlterUserScramCredentialsResponse:
        """One result a user. In: why nothing could be changed."""
        done = [
            _result(name, failure)
            if failure is not None
            else AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, error_message=None)
            for name in (*self.deletions, *self.upsertions)
        ]
        return AlterUserScramCredentialsResponse(
            results=done + [_result(name, error) for name, error in self.errors.items()]
        )


class ScramCredentials:
    """Answers these two."""

    def __init__(self, store: SecurityStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        """One request after the other looks at what is there and changes it."""
        self._tasks = InTask()

    def describe(self, request: DescribeUserScramCredentialsRequest, caller: Caller) -> object:
        """Mechanisms and iterations of some users, or of all."""
        names = [user.name for user in request.users or ()]
        return self._tasks.begin(caller, self._describe(names))

    def alter(self, request: AlterUserScramCredentialsRequest, caller: Caller) -> object:
        """Takes credentials away and gives them, all in one write; each user has a result."""
        return self._tasks.begin(caller, self._alter(request, who_asks(caller)))

    async def _describe(self, names: list[str]) -> DescribeUserScramCredentialsResponse:
        scram = self._store.state.scram
        return await apart(lambda: _described(scram, names), len(scram) + len(names))

    async def _alter(
        self, request: AlterUserScramCredentialsRequest, who: str
    ) -> AlterUserScramCredentialsResponse:
        async with self._turn:
            state = self._store.state
            size = len(request.deletions) + len(request.upsertions)
            plan = await apart(lambda: _plan(request, state.scram), size)
            if not plan.deletions and not plan.upsertions:
                return plan.response()
            scram = plan.carried_out(state.scram)
            if len(scram) > MOST_CREDENTIALS:
                why = f"There would be more than {MOST_CREDENTIALS} credentials"
                return plan.response(_Error(ErrorCode.POLICY_VIOLATION, why))
            try:
                await self._store.change(replace(state, scram=scram))
            except OSError as error:
                return plan.response(_Error(ErrorCode.KAFKA_STORAGE_ERROR, reason_of(error)))
            _log("Removed", plan.deletions.values(), who)
            _log("Set", (user for user, _ in plan.upsertions.values()), who)
        return plan.response()


def _plan(request: AlterUserScramCredentialsRequest, scram: Scram) -> _Plan:
    plan = _Plan({}, {}, {})
    for deletion in request.deletions:
        name = deletion.name
        if name in plan.errors:
            continue
        error = _why_not_deleted(deletion, scram)
        if plan.deletions.pop(name, None) is not None:
            plan.errors[name] = _Error(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        elif error is not None:
            plan.errors[name] = error
        else:
            plan.deletions[name] = name, ScramMechanism(deletion.mechanism)
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in plan.errors:
            continue
        error = _why_not_set(upsertion)
        before = plan.deletions.pop(name, None) or plan.upsertions.pop(name, None)
        if before is not None:
            plan.errors[name] = _Error(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        elif error is not None:
            plan.errors[name] = error
        else:
            plan.upsertions[name] = _credential(upsertion)
    return plan


def _why_not(name: str, mechanism: int) -> _Error | None:
    if not name:
        return _Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _MECHANISMS:
        return _Error(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _why_not_deleted(deletion: ScramCredentialDeletion, scram: Scram) -> _Error | None:
    error = _why_not(deletion.name, deletion.mechanism)
    if error is None and (deletion.name, ScramMechanism(deletion.mechanism)) not in scram:
        message = "Attempt to delete a user credential that does not exist"
        return _Error(ErrorCode.RESOURCE_NOT_FOUND, message)
    return error


def _why_not_set(upsertion: ScramCredentialUpsertion) -> _Error | None:
    error = _why_not(upsertion.name, upsertion.mechanism)
    if error is not None:
        return error
    if upsertion.iterations < MIN_ITERATIONS:
        return _Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        return _Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:
        return _Error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    return None


def _credential(upsertion: ScramCredentialUpsertion) -> tuple[ScramUser, ScramCredential]:
    mechanism = ScramMechanism(upsertion.mechanism)
    credential = credential_of(
        mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations
    )
    return (upsertion.name, mechanism), credential


def _result(name: str, error: _Error) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)


def _described(scram: Scram, names: list[str]) -> DescribeUserScramCredentialsResponse:
    infos: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in sorted(scram.items(), key=lambda entry: entry[0]):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        infos.setdefault(name, []).append(info)
    seen: dict[str, int] = {}
    for name in names or infos:
        seen[name] = seen.get(name, 0) + 1
    return DescribeUserScramCredentialsResponse(
        error_message=_FINE,
        results=[_description(name, times, infos.get(name, [])) for name, times in seen.items()],
    )


def _description(name: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
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
    return DescribeUserScramCredentialsResult(user=name, error_message=_FINE, credential_infos=infos)


def _log(verb: str, users: Iterable[ScramUser], who: str) -> None:
    """A line for each change, up to a hundred of a request."""
    changed = list(users)
    for name, mechanism in changed[:_MOST_LINES]:
        _LOG.info(
            "%s the %s credential of %s, by %s", verb, mechanism.mechanism_name, printable(name, 80), who
        )
    if len(changed) > _MOST_LINES:
        _LOG.info("%s %d more credentials, by %s", verb, len(changed) - _MOST_LINES, who)
