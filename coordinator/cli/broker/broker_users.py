"""The SCRAM users of a broker, over Kafka's protocol."""

from collections.abc import Sequence
from typing import Any

from coordinator.cli.broker.refused import BrokerRefused
from coordinator.cli.broker.request_sender import RequestSender
from coordinator.security.credential import ScramMechanism
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

Iterations = dict[tuple[str, ScramMechanism], int]
"""The iterations of credentials, by user and mechanism."""


class BrokerUsers:
    """All methods raise BrokerRefused for an error in the answer, and what the connection raises."""

    def __init__(self, broker: RequestSender) -> None:
        self._broker = broker

    def iterations(self, names: Sequence[str] = ()) -> Iterations:
        """Return the iterations of all credentials, or of some users. A user without credentials is an error."""
        users = [UserName(name=name) for name in names] or None
        answer = self._broker.ask(DescribeUserScramCredentialsRequest(users=users))
        _check(answer)
        found: Iterations = {}
        for result in answer.results:
            _check(result)
            for info in result.credential_infos:
                found[result.user, ScramMechanism(info.mechanism)] = info.iterations
        return found

    def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        """Give a user a credential, in place of the one with the same mechanism."""
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password,
        )
        self._alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Delete a credential that exists."""
        deletion = ScramCredentialDeletion(name=name, mechanism=mechanism)
        self._alter(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        for result in self._broker.ask(request).results:
            _check(result)


def _check(answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        raise BrokerRefused(answer.error_code, answer.error_message)
