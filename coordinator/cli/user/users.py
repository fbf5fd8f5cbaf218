"""Where users are kept: with a broker that is asked, or in the directory of a stopped daemon."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import click

from coordinator.cli.broker.command import Asking
from coordinator.cli.broker.connection import BrokerConnection
from coordinator.cli.broker.directory import security_of
from coordinator.cli.broker.refused import BrokerRefused
from coordinator.security.credential import ScramMechanism
from coordinator.security.scram import credential_of
from coordinator.server.security_file import SecurityFile
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

MECHANISMS: Final = {each.mechanism_name: each for each in ScramMechanism}

Iterations = dict[tuple[str, ScramMechanism], int]
"""By user and mechanism."""


class Users(Protocol):
    """All methods raise Unreachable, and BrokerRefused where the answer is no."""

    def iterations(self) -> Iterations:
        """Of all credentials."""

    def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        """Gives a user a credential, in place of the one it has."""

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Takes a credential away that is there."""


class _OfBroker:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    def iterations(self) -> Iterations:
        answer = self._broker.ask(DescribeUserScramCredentialsRequest(users=None))
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
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password,
        )
        self._alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        deletion = ScramCredentialDeletion(name=name, mechanism=mechanism)
        self._alter(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        for result in self._broker.ask(request).results:
            _check(result)


class _OfDirectory:
    def __init__(self, file: SecurityFile) -> None:
        self._file = file

    def iterations(self) -> Iterations:
        return {user: each.iterations for user, each in self._file.state.scram.items()}

    def set(
        self, name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> None:
        credential = credential_of(mechanism, salted_password, salt, iterations)
        self._change({**self._file.state.scram, (name, mechanism): credential})

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        scram = dict(self._file.state.scram)
        del scram[name, mechanism]
        self._change(scram)

    def _change(self, scram: Mapping[tuple[str, ScramMechanism], Any]) -> None:
        self._file.change(replace(self._file.state, scram=scram))


def _check(answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        raise BrokerRefused(answer.error_code, answer.error_message)


def mechanism_option(what: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The option that names mechanisms; both, where it is not given."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice([*MECHANISMS], case_sensitive=False),
        help=f"{what} Default: both.",
    )


@contextmanager
def users_of(asking: Asking, data_dir: str | None) -> Iterator[Users]:
    """Raises Misused, Unreachable."""
    if data_dir is None:
        yield _OfBroker(asking.broker)
        return
    with security_of(data_dir) as file:
        yield _OfDirectory(file)
