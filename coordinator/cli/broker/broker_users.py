"""The SCRAM users of a broker, over Kafka's protocol."""

from collections.abc import Sequence
from typing import Any

from coordinator.cli.broker.broker_connection import RequestSender
from coordinator.cli.command_errors import BrokerError
from coordinator.security.core.sasl_mechanisms import ScramMechanism
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

Iterations = dict[tuple[str, ScramMechanism], int]
"""The iterations of credentials, by user and mechanism."""


class BrokerUsers:
    """The SCRAM users of a broker. All methods raise BrokerError for an error in the response, and the errors of
    the connection."""

    def __init__(self, broker: RequestSender) -> None:
        self._broker = broker

    def list_iterations(self, names: Sequence[str] = ()) -> Iterations:
        """Return the iterations of all credentials, or of some users. A user without credentials is an error."""
        users = [UserName(name=name) for name in names] or None
        answer = self._broker.send_request(DescribeUserScramCredentialsRequest(users=users))
        _check_error(answer)
        found: Iterations = {}
        for result in answer.results:
            _check_error(result)
            for info in result.credential_infos:
                found[result.user, ScramMechanism(info.mechanism)] = info.iterations
        return found

    def set_credential(
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
        self._alter_credentials(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def remove_credential(self, name: str, mechanism: ScramMechanism) -> None:
        """Delete a credential that exists."""
        deletion = ScramCredentialDeletion(name=name, mechanism=mechanism)
        self._alter_credentials(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))

    def _alter_credentials(self, request: AlterUserScramCredentialsRequest) -> None:
        for result in self._broker.send_request(request).results:
            _check_error(result)


def _check_error(answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        raise BrokerError(answer.error_code, answer.error_message)
